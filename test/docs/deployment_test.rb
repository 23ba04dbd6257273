# frozen_string_literal: true

require "abaca"
require "minitest/autorun"
require "open3"
require "tmpdir"

# The examples of docs/deployment.md.
class DeploymentTest < Minitest::Test
  FOLDER = File.expand_path("../../docs/examples", __dir__)
  UNITS = Dir["#{FOLDER}/*.{service,socket}"]
  KEY = /\A[A-Z][A-Za-z]+=./

  def test_units_are_well_formed
    UNITS.each do |path|
      lines = File.readlines(path, chomp: true).grep_v(/\A(?:#|\z)/)

      assert_empty lines.grep_v(/\A\[[A-Z][a-z]+\]\z/).grep_v(KEY), path
    end
  end

  # The program is not installed here.
  def test_systemd_takes_them
    skip "systemd-analyze is not installed" unless system("systemd-analyze", "--version", out: File::NULL, err: File::NULL)

    Dir.mktmpdir("abaca") do |directory|
      copies = UNITS.map { |path| copy(path, directory) }
      out, status = Open3.capture2e("systemd-analyze", "verify", "--man=no", *copies)

      assert_empty out.lines.grep(/#{directory}|abaca\./)
      assert_predicate status, :success?, out
    end
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

  def example(name) = File.read(File.join(FOLDER, name))

  def page = @page ||= File.read(File.join(FOLDER, "../deployment.md"))

  # What the page sets in config/abaca.rb for all examples.
  def settings
    @settings ||= Abaca::Config::DSL.new.tap { |dsl| dsl.instance_eval(page[/```ruby\n(.*?)```/m, 1]) }.to_h
  end

  def copy(path, directory)
    copy = File.join(directory, File.basename(path))
    text = File.read(path).sub(%r{^ExecStart=/usr/bin/bundle}, "ExecStart=/bin/true").sub(/^# Requires/, "Requires")
    File.write(copy, text)
    copy
  end
end
