# frozen_string_literal: true

require "open3"

# Programs of other people that a test runs, each with a deadline. bin/setup installs them where it may.
module Programs
  DEADLINE = 60 # seconds
  # A sanitizer is for the server: with it, curl does not begin, or hangs.
  ENVIRONMENT = { "LD_PRELOAD" => nil }.freeze

  # @return [String, nil] where the program is, if it is installed
  def self.find(program)
    folders = ENV.fetch("PATH", "").split(":") | %w[/usr/sbin /usr/local/sbin]
    folders.map { |folder| File.join(folder, program) }.find { |path| File.executable?(path) }
  end

  # For Open3 and `system`: the environment, and the words of a command that ends in time.
  def self.words(*command, environment: {})
    [ENVIRONMENT.merge(environment), "timeout", "-k", "5", DEADLINE.to_s, *command]
  end

  # What a program prints that has to succeed.
  def run_program(program, *words)
    need_program(program)
    out, err, status = Open3.capture3(*Programs.words(program, *words))
    assert_predicate status, :success?, "#{out[0, 2000]}#{err}"
    out
  end

  # Skips the test without it.
  def need_program(program)
    missing(program) unless program.include?("/") || Programs.find(program)
  end

  # Where bin/setup installs what a test needs, it has to be there; the machine of another Ruby does without, and
  # nobody has to have Node.
  def missing(what)
    flunk "#{what} is not installed" if what != "node" && ENV.key?("CI") && !ENV.key?("MATRIX") && Process.uid.zero?
    skip "#{what} is not installed"
  end
end
