# frozen_string_literal: true

require "optparse"
require "rbconfig"
require_relative "../version"
require_relative "client"
require_relative "target"

module Abaca
  class Control
    # The command line of `abacactl`, with Puma's commands and flags, and texts where scripts may look at them.
    class CLI
      # How a command is carried out: its signal if only a process id is known (nil: not at all), whether the control
      # server has it, and whether its answer is printed.
      Way = Struct.new(:signal, :control, :printed)
      DUMP = Signal.list.key?("INFO") ? "INFO" : "PWR"
      COMMANDS = {
        "start" => Way.new,
        "status" => Way.new(nil, true),
        "stop" => Way.new("TERM", true),
        "halt" => Way.new("QUIT", true),
        "restart" => Way.new("USR2", true),
        "phased-restart" => Way.new("USR1", true),
        "refork" => Way.new("URG", true),
        "reload-worker-directory" => Way.new(nil, true),
        "worker-count-up" => Way.new("TTIN"),
        "worker-count-down" => Way.new("TTOU"),
        "reopen-log" => Way.new("HUP"),
        "info" => Way.new(DUMP),
        "gc" => Way.new(nil, true),
        "gc-stats" => Way.new(nil, true, true),
        "stats" => Way.new(nil, true, true),
        "thread-backtraces" => Way.new(nil, true, true),
        "reload-certificates" => Way.new(nil, true),
        "workers" => Way.new(nil, true, true),
        "dump" => Way.new(nil, true, true)
      }.freeze
      # Ours: their token is not in the query, which may be logged.
      OURS = %w[workers dump reload-certificates].freeze
      SERVER = File.expand_path("../../../exe/abaca", __dir__)
      private_constant :Way, :DUMP, :OURS, :SERVER

      # A message for the user; the command has failed.
      class Failed < StandardError; end

      # @param argv [Array<String>] is not changed
      # @param out [IO] for what is answered
      # @param err [IO] for errors
      # @param env [#[]] the environment's variables
      # @return [Integer] the process's exit status
      def self.run(argv, out: $stdout, err: $stderr, env: ENV) = new(argv, out:, err:, env:).run

      def initialize(argv, out: $stdout, err: $stderr, env: ENV)
        @argv = argv
        @out = out
        @err = err
        @flags = { environment: %w[APP_ENV RACK_ENV RAILS_ENV].filter_map { |name| env[name] }.first }
      end

      # @return [Integer] the exit status
      def run
        words = parser.parse(@argv)
        return 0 if @done

        carry_out(command_of(words))
        0
      rescue OptionParser::ParseError, ConfigError, Client::Failed, Failed => e
        @err.puts(e.message)
        1
      end

      private

      def parser
        OptionParser.new("Usage: abacactl [options] COMMAND", 34) do |words|
          words.separator("\nCommands: #{COMMANDS.keys.join(', ').scan(/\S.{0,66}(?=\s|\z)/).join("\n          ")}")
          words.separator("\nWhich server (the default is what config/abaca.rb or config/puma.rb says):")
          targets(words)
          words.separator("\nOthers:")
          words.on("-Q", "--quiet", "Print answers and errors only") { @quiet = true }
          words.on("-V", "--version", "Print the version and exit") { finish("abacactl version #{VERSION}") }
          words.on("-H", "-h", "--help", "Print this help and exit") { finish(words.help) }
        end
      end

      def targets(words)
        flag(words, :state, "-S", "--state PATH", "State file of the server")
        flag(words, :control_url, "-C", "--control-url URL", "Its control server: unix:///path or tcp://host:port")
        flag(words, :control_token, "-T", "--control-token TOKEN", "What the control server asks for")
        flag(words, :pidfile, "-P", "--pidfile PATH", "File with its process id")
        flag(words, :pid, "-p", "--pid PID", Integer, "Its process id")
        flag(words, :file, "-F", "--config-file PATH", "Its configuration file; - is none")
        flag(words, :environment, "-e", "--environment NAME", "Its environment (default: development)")
      end

      def flag(words, name, *definition) = words.on(*definition) { |value| @flags[name] = value }

      def finish(text)
        @out.puts(text)
        @done = true
      end

      def message(text)
        @out.puts(text) unless @quiet
      end

      def command_of(words)
        raise Failed, "Available commands: #{COMMANDS.keys.join(', ')}" if words.empty?
        raise Failed, "One command only, not #{words.join(' and ')}" if words.size > 1
        raise Failed, "Invalid command: #{words.first}" unless COMMANDS.key?(words.first)

        words.first
      end

      def carry_out(command)
        @target = Target.new(@flags)
        return start if command == "start"

        @target.find
        way = COMMANDS.fetch(command)
        @target.control_url && way.control ? ask(command, way) : signal(command, way)
      end

      def ask(command, way)
        client = Client.new(@target.control_url)
        return client.connect { message("Abaca is started") } if command == "status"

        reply = client.ask(command, token: @target.control_token, query: !OURS.include?(command))
        raise Failed, refusal(reply) unless reply.status == 200

        message("Command #{command} sent success")
        @out.puts(reply.body) if way.printed
      end

      def refusal(reply)
        case reply.status
        when 403 then "Unauthorized access to server (wrong auth token)"
        when 404, 422 then "Command error: #{reply.body}"
        else "Bad response from server: #{reply.status}"
        end
      end

      def signal(command, way)
        pid = @target.pid
        raise Failed, "Neither pid nor control url available" unless pid&.positive?
        return status(pid) if command == "status"
        unless way.signal
          raise Failed, "'#{command}' not available via pid only: it needs a control server (activate_control_app)"
        end

        Process.kill(way.signal, pid)
        message("Command #{command} sent success")
      rescue Errno::ESRCH
        return start if command == "restart"

        raise Failed, "No pid '#{pid}' found"
      rescue Errno::EPERM
        raise Failed, "No permission to signal pid '#{pid}'"
      end

      def status(pid)
        Process.kill(0, pid)
        message("Abaca is started")
      rescue Errno::ESRCH
        raise Failed, "Abaca is not running"
      rescue Errno::EPERM
        message("Abaca is started") # by another user
      end

      # This process becomes the server, with its own arguments, which a restart will need.
      def start
        given = { "-S" => @flags[:state], "--pidfile" => @flags[:pidfile], "--control-url" => @flags[:control_url],
                  "--control-token" => @flags[:control_token], "-C" => @flags[:file], "-e" => @flags[:environment] }
        words = given.compact.flatten
        words << "-q" if @quiet
        exec(RbConfig.ruby, SERVER, *words)
      end
    end
  end
end
