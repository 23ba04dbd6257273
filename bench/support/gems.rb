# frozen_string_literal: true

require "fileutils"
require "open3"
require "timeout"

module Bench
  # A published gem in a gem folder of its own below tmp/, never in the project's Gemfile.
  class Gems
    LIMIT = 420 # seconds for one installation, native extensions included

    # @param name [String] the gem
    # @param ruby [Ruby] for which it is installed
    # @param with [Array<String>] gems to install beside it
    # @param first [Array<String>] gems to install before it, "name:requirement", which are enough for it
    def initialize(name, ruby: Ruby.here, with: %w[rack], first: [])
      @name = name
      @ruby = ruby
      @with = with
      @first = first
      @home = File.join(ROOT, "tmp", "bench-gems", "#{name}-ruby#{ruby.version}")
    end

    # Installs the newest version that this Ruby can have, once; a failure is remembered too, until
    # its folder is removed.
    # @raise [Unavailable] with the reason
    def install
      reason = File.join(@home, "unavailable.txt")
      raise Unavailable, File.read(reason) if File.exist?(reason)
      return if version

      warn "bench: installing #{@name} for Ruby #{@ruby.version}"
      text, success = run_installer
      return if success && version

      FileUtils.mkdir_p(@home)
      File.write(reason, complaint(text))
      raise Unavailable, File.read(reason)
    end

    # @return [String, nil] the installed version
    def version
      Dir.glob(File.join(@home, "specifications", "#{@name}-[0-9]*.gemspec"))
         .map { |path| File.basename(path, ".gemspec").delete_prefix("#{@name}-")[/\A[0-9][0-9a-z.]*/] }.max
    end

    # @return [String] path of one of its executables
    def executable(name = @name)
      File.join(@home, "bin", name)
    end

    # @return [String] its folder
    def folder = File.join(@home, "gems", "#{@name}-#{version}")

    # @return [Hash] the variables with which Ruby finds these gems and no others
    def env
      { "GEM_HOME" => @home, "GEM_PATH" => @home }
    end

    private

    # What is to be first is installed by a command of its own, since one command takes the newest of everything.
    def run_installer
      text, success = install_gems(*@first) unless @first.empty?
      return [text, false] if success == false

      install_gems(*("--minimal-deps" unless @first.empty?), @name, *@with)
    end

    def install_gems(*names)
      command = @ruby.command("-S", "gem", "install", "--no-document", "--install-dir", @home, *names)
      Open3.popen2e(Child::CLEAN.merge(env), *command, pgroup: true) do |_in, out, thread|
        text = Timeout.timeout(LIMIT) { out.read }
        [text, thread.value.success?]
      rescue Timeout::Error
        Process.kill("KILL", -thread.pid)
        ["not installed within #{LIMIT} s", false]
      end
    end

    def complaint(text)
      reasons = [/requires Ruby|error:|could not be found|not installed/, /ERROR/, //]
      line = reasons.filter_map { |pattern| text.lines.grep(pattern).first }.first
      "does not install on Ruby #{@ruby.version}: #{line.to_s.strip[0, 90]}"
    end
  end
end
