# frozen_string_literal: true

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

  private

  def copy(path, directory)
    copy = File.join(directory, File.basename(path))
    text = File.read(path).sub(%r{^ExecStart=/usr/bin/bundle}, "ExecStart=/bin/true").sub(/^# Requires/, "Requires")
    File.write(copy, text)
    copy
  end
end
