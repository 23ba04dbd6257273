# frozen_string_literal: true

require "optparse"
require "rbconfig"
require_relative "../command_line"
require_relative "../profile"
require_relative "../version"
require_relative "client"
require_relative "target"
require_relative "target_flags"
require_relative "ways"

module Abaca
  class Control
    # The command line of `abacactl`, with Puma's commands and flags, and texts where scripts may look at them.
    class CLI
      include CommandLine
      include TargetFlags

      SERVER = File.expand_path("../../../exe/abaca", __dir__)
      # Seconds for an answer, beside those that are asked for.
      PATIENCE = 60
      private_constant :SERVER, :PATIENCE

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
        @query = {}
        @flags = usual_flags(env)
      end

      # @return [Integer] the exit status
      def run
        words = parser.parse(@argv)
        return 0 if @done

        carry_out(*command_of(words))
        0
      rescue OptionParser::ParseError, ConfigError, Client::Failed, Failed => e
        @err.puts(e.message)
        1
      end

      private

      def parser
        OptionParser.new("Usage: abacactl [options] COMMAND", 34) do |words|
          words.separator("\nCommands: #{commands.join(', ').scan(/\S.{0,66}(?=\s|\z)/).join("\n          ")}")
          words.separator("\nWhich server (the default is what config/abaca.rb or config/puma.rb says):")
          targets(words, pid: true)
          words.separator("\nFor profile:")
          profiles(words)
          words.separator("\nOthers:")
          words.on("-Q", "--quiet", "Print answers and errors only") { @quiet = true }
          words.on("-V", "--version", "Print the version and exit") { finish("abacactl version #{VERSION}") }
          words.on("-H", "-h", "--help", "Print this help and exit") { finish(words.help) }
        end
      end

      def profiles(words)
        words.on("--kind KIND", Profile::KINDS, "wait (the default): where requests wait; stall: where they",
                 "keep their loops") { |kind| @query[:kind] = kind }
        words.on("--seconds N", Float, "For how long (default: 10); 0 with stall: all so far") do |seconds|
          @query[:seconds] = seconds
        end
        words.on("--format FORMAT", Profile::FORMATS, "collapsed (the default, but text on a terminal), text,",
                 "svg, firefox, json") { |format| @query[:format] = format }
      end

      def message(text)
        @out.puts(text) unless @quiet
      end

      def command_of(words)
        raise Failed, "Available commands: #{commands.join(', ')}" if words.empty?

        command, *given = words
        way = WAYS[command] or raise Failed, "Invalid command: #{command}"
        raise Failed, "--#{@query.keys.first} is for profile, not for #{command}" if @query.any? && !way.asks
        return words if way.takes?(given)
        raise Failed, "One command only, not #{words.join(' and ')}" if way.words.nil?

        raise Failed, "Usage: abacactl #{command} #{way.words}"
      end

      def commands = WAYS.map { |command, way| [command, way.words].compact.join(" ") }

      def carry_out(command, *given)
        @target = Target.new(@flags)
        return start if command == "start"

        @target.find
        way = WAYS.fetch(command)
        @target.control_url && way.control ? ask(command, way, given) : signal(command, way)
      end

      def ask(command, way, given)
        client = Client.new(@target.control_url)
        return client.connect { message("Abaca is started") } if command == "status"

        reply = reply_to(client, command, way, given)
        raise Failed, refusal(reply) unless reply.status == 200
        return @out.puts(link(client, reply)) if command == "dashboard"

        message(done(command, reply)) unless way.asks || way.printed
        @out.puts(reply.body) if way.printed
        missing(reply)
      end

      def done(command, reply)
        reply.body.include?("restarting") ? "Abaca is restarting" : "Command #{command} sent success"
      end

      # A terminal gets text.
      def reply_to(client, command, way, given)
        token = @target.control_token
        return client.ask(command, verb: way.printed ? "GET" : "POST", token:) unless way.ours

        verb, target = way.request(command, given)
        client.call(verb, "#{target}#{query if way.asks}", token:, accept: @out.tty? ? "text/plain" : nil,
                                                           within: PATIENCE + @query[:seconds].to_f)
      end

      def query
        @query[:format] ||= @out.tty? ? "text" : "collapsed"
        "?#{URI.encode_www_form(@query)}"
      end

      def missing(reply)
        names = reply.fields["abaca-missing"]
        @err.puts("not in it, since there was no answer in time: #{names}") if names
      end

      def link(client, reply)
        reply.body[/"url":"([^"]*)"/, 1] || client.link(reply.body[/"path":"([^"]*)"/, 1]) or
          raise Failed, "A browser needs a port: activate_control_app \"tcp://127.0.0.1:9293\""
      end

      def refusal(reply)
        case reply.status
        when 403 then refused(reply)
        when 404, 409, 422, 504 then "Command error: #{reply.body}"
        else "Bad response from server: #{reply.status}"
        end
      end

      def refused(reply)
        return "Unauthorized access to server (wrong auth token)" if reply.body == "Invalid auth token"

        "Unauthorized access to server: #{reply.body}"
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
