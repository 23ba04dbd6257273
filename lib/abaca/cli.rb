# frozen_string_literal: true

require "optparse"
require_relative "../abaca"
require_relative "command_line"

module Abaca
  # The command line: turns arguments into settings, and every mistake into one line and status 1.
  class CLI
    require_relative "cli/settings" # here, since the constant is loaded by its name elsewhere
    include CommandLine
    include Settings

    autoload :Help, File.expand_path("cli/help", __dir__)

    # @param argv [Array<String>] is not changed
    # @param out [IO] for the banner, help, version and access log
    # @param err [IO] for errors and warnings
    # @return [Integer] the process's exit status
    def self.run(argv, out: $stdout, err: $stderr)
      return ServerTiming::Command.run(argv.drop(1), out:, err:) if argv.first == "timing"

      new(argv, out:, err:).run
    end

    def initialize(argv, out: $stdout, err: $stderr)
      # OptionParser raises for bytes that are invalid in the locale's encoding, such as a path in UTF-8 under LANG=C.
      @argv = argv.map { |word| word.valid_encoding? ? word : word.b }
      @out = out
      @err = err
      @settings = {}
      @notes = []
      @files = nil
    end

    # @return [Integer] the exit status
    def run
      PrunedBundle.use_extra_paths if ENV.key?("ABACA_PRUNED_PATHS")
      parse
      return 0 if @done
      return check if @check

      serve
      0
    rescue OptionParser::ParseError, ConfigError => e
      complain(e)
    end

    # @return [Config] the arguments, the file and the defaults combined
    # @raise [ConfigError, OptionParser::ParseError]
    def config
      parse
      Config::Loader.new(@settings, files: @files, warnings: @notes).load
    end

    private

    # Catches signals before the configuration file runs.
    def serve
      signals = Launcher::Signals.new
      settled = config
      PrunedBundle.leave(settled, @argv, signals) if settled[:prune_bundler]
      Launcher.new(settled, argv: @argv, out: @out, err: @err, signals:).run
    end

    def parse
      return if @parsed

      @parsed = true
      rest = parser.parse(@argv)
      raise ConfigError, "one rackup file only, not #{rest.join(' and ')}" if rest.size > 1

      @settings[:rackup] = rest.first if rest.first
    end

    # Shows the configuration instead of serving, and what the boot would fail at. The app is not loaded.
    def check
      settled = config
      paths = Launcher::Paths.new(settled)
      [*settled.warnings, *settled.remarks, *paths.warnings].each { |warning| @err.puts("abaca: warning: #{warning}") }
      mistakes = paths.mistakes
      @out.puts(Config::Report.new(settled).lines, paths.certificate_lines)
      mistakes.each { |mistake| @err.puts("abaca: #{mistake}") }.empty? ? 0 : 1
    end

    def complain(error)
      @err.puts("abaca: #{error.message}")
      if @settings[:debug]
        source = error.cause || error
        @err.puts(source.full_message(highlight: false))
      end
      1
    end

    # @param help [Help, nil] has the texts of many flags, for --help
    def parser(help = nil)
      OptionParser.new("Usage: abaca [options] [rackup file]\n       abaca top [options] [PID]\n       " \
                       "abaca timing [options] [URL]", 30) do |words|
        listening(words)
        configuration(words)
        output(words)
        settings(words, help)
        words.separator("")
        words.on("-V", "--version", "Print the version and exit") { finish("abaca version #{VERSION}") }
        words.on("-h", "--help", "Print this help and exit") { finish(parser(Help.new).help) }
      end
    end

    def listening(words)
      words.separator("\nListening:")
      words.on("-b", "--bind URI", "tcp://host:port, ssl://host:port, unix:///path or fd://N;",
               "may be repeated") do |uri|
        add_bind(Config::Bind.parse(uri))
      end
      words.on("-p", "--port PORT", "TCP port on the default host",
               "(127.0.0.1 in development and test, else 0.0.0.0)") do |port|
        add_bind(Config::Bind.tcp(nil, port))
      end
    end

    def add_bind(bind)
      @settings[:binds] = [*@settings[:binds], bind]
    end

    def configuration(words)
      words.separator("\nConfiguration:")
      words.on("-C", "--config PATH", "Configuration file; - is none (default: config/abaca.rb,",
               "else config/puma.rb)") { |path| @files = path == "-" ? [] : [*@files, path] }
      words.on("--no-config", "No configuration file") { @files = [] }
      words.on("--check-config", "Print the effective configuration, and where each value",
               "comes from; 1 when there is a mistake") { @check = true }
      words.on("-I", "--include PATHS", "Directories for $LOAD_PATH, with : between them") do |paths|
        $LOAD_PATH.unshift(*paths.split(":"))
      end
    end

    def output(words)
      words.separator("\nOutput:")
      words.on("-v", "--log-requests", "Write an access log") { @settings[:log_requests] = true }
      words.on("-q", "--quiet", "No access log (default)") { @settings[:log_requests] = false }
      words.on("-s", "--silent", "Print errors only") { @settings.update(silent: true, log_requests: false) }
      words.on("--redirect-stdout FILE", "Standard output goes to this file") { |file| redirect(stdout: file) }
      words.on("--redirect-stderr FILE", "Standard error goes to this file") { |file| redirect(stderr: file) }
      words.on("--redirect-append", "Append to these files") { redirect(append: true) }
      words.on("--no-redirect-append", "Empty them first (default)") { redirect(append: false) }
    end

    def redirect(**change)
      @settings[:redirect] = { stdout: nil, stderr: nil, append: false }.merge(@settings[:redirect] || {}, change)
    end
  end
end
