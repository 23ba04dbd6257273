# frozen_string_literal: true

require "test_helper"
require "support/examples_case"
require "support/programs"

# The examples of docs/deployment.md for systemd and proxies. test/proxies runs the proxies.
class DeploymentTest < Minitest::Test
  include ExamplesCase

  UNITS = Dir["#{FOLDER}/*.{service,socket}"]
  # What these units may have. systemd passes over a name that it does not know.
  KEYS = {
    "Unit" => %w[Description After Wants Requires],
    "Service" => %w[Type NotifyAccess User WorkingDirectory Environment ExecStart ExecReload TimeoutStopSec
                    TimeoutStartSec WatchdogSec Restart RestartSec LimitNOFILE],
    "Socket" => %w[ListenStream SocketMode Backlog Accept],
    "Install" => %w[WantedBy]
  }.freeze

  def test_units_have_known_keys
    UNITS.each do |path|
      known = nil
      File.readlines(path, chomp: true).grep_v(/\A(?:#|\z)/).each do |line|
        name = line[/\A\[(.+)\]\z/, 1]
        known = KEYS.fetch(name) if name
        assert_includes known, line[/\A(\w+)=./, 1], "#{path}: #{line}" unless name
      end
    end
  end

  # bin/setup does not install the program.
  def test_systemd_takes_them
    skip "systemd-analyze is not installed" unless Programs.find("systemd-analyze")

    Dir.mktmpdir("abaca") do |directory|
      copies = UNITS.map { |path| copy(path, directory) }
      out, status = Open3.capture2e(*Programs.words("systemd-analyze", "verify", "--man=no", *copies))

      assert_empty out.lines.grep(/#{directory}|abaca\./)
      assert_predicate status, :success?, out
    end
  end

  def test_systemd_waits_for_the_end
    assert_operator Integer(example("abaca.service")[/^TimeoutStopSec=(\d+)$/, 1]), :>=, patience(settings)
  end

  # A proxy ends idle connections before the server does.
  def test_nginx_keeps_connections_for_a_shorter_time
    text = example("nginx.conf")
    persistent = Abaca::Config.new({})[:persistent_timeout]
    assert_operator Integer(text[/^  keepalive_timeout (\d+)s;/, 1]), :<, persistent
    assert_includes text, "persistent_timeout (#{persistent} seconds)"
  end

  def test_haproxy_notices_a_stop_before_the_listeners_close
    text = example("haproxy.cfg")
    notice = text.match(/inter (?<inter>\d+)s fall (?<fall>\d+)/)
    seconds = Integer(notice[:inter]) * Integer(notice[:fall])
    assert_operator seconds, :<, settings[:shutdown_delay]
    assert_includes page, "after `fall` times `inter`, #{seconds} seconds"
    assert_equal settings[:readiness], text[/^  http-check send .* uri (\S+)/, 1]
  end

  private

  def copy(path, directory)
    copy = File.join(directory, File.basename(path))
    text = File.read(path).sub(%r{^ExecStart=/usr/bin/bundle}, "ExecStart=/bin/true").sub(/^# Requires/, "Requires")
    File.write(copy, text)
    copy
  end
end
