# frozen_string_literal: true

require "fileutils"

module Bench
  # A published gem in a gem folder of its own below tmp/, never in the project's Gemfile.
  class Gems
    LIMIT = 900 # seconds for one installation, native extensions included

    # @param name [String] the gem
    # @param ruby [Ruby] for which it is installed
    # @param with [Array<String>] gems to install before it, "name" or "name:requirement", which are enough for it
    def initialize(name, ruby: Ruby.here, with: %w[rack])
      @name = name
      @ruby = ruby
      @with = with
      @home = File.join(ROOT, "tmp", "bench-gems", "#{name}-ruby#{ruby.version}")
    end

    # Installs the newest version that this Ruby can have, once; a failure is remembered too, until its folder is
    # removed. What comes with this Ruby is enough where another gem wants it.
    # @raise [Unavailable] with the reason
    def install
      reason = File.join(@home, "unavailable.txt")
      raise Unavailable, File.read(reason) if File.exist?(reason)
      return if complete?

      warn "bench: installing #{@name} for Ruby #{@ruby.version}"
      text, success = run_installer
      return if success && complete?

      FileUtils.mkdir_p(@home)
      File.write(reason, complaint(text))
      raise Unavailable, File.read(reason)
    end

    # @return [String, nil] the installed version
    def version = version_of(@name)

    # @return [String] path of one of its executables
    def executable(name = @name)
      File.join(@home, "bin", name)
    end

    # @return [Hash] the variables with which Ruby finds these gems and no others
    def env
      { "GEM_HOME" => @home, "GEM_PATH" => @home }
    end

    private

    def complete? = [*@with, @name].all? { |gem| version_of(gem[/\A[^:]+/]) }

    def version_of(gem)
      Dir.glob(File.join(@home, "specifications", "#{gem}-[0-9]*.gemspec"))
         .map { |path| File.basename(path, ".gemspec").delete_prefix("#{gem}-")[/\A[0-9][0-9a-z.]*/] }.max
    end

    # One gem after another, to GEM_HOME. (With --install-dir, the newest of everything would be installed.)
    def run_installer
      command = @ruby.command("-S", "gem", "install", "--no-document", *@with, @name)
      text, status = Child.run(command, name: "install-#{@name}", env: env, seconds: LIMIT)
      status ? [text, status.success?] : ["not installed within #{LIMIT} s", false]
    end

    def complaint(text)
      reasons = [/requires Ruby|error:|could not be found|not installed/, /ERROR/, //]
      line = reasons.filter_map { |pattern| text.lines.grep(pattern).first }.first
      "does not install on Ruby #{@ruby.version}: #{line.to_s.strip[0, 90]}"
    end
  end
end
