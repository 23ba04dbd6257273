# frozen_string_literal: true

require "optparse"
require_relative "version"
require_relative "errors"
require_relative "native"
require_relative "sight"
require_relative "command_line"
require_relative "control/client"
require_relative "control/target_flags"

module Abaca
  # The command `abaca top`: what a server does, live, without asking it. A look comes from a process that has just
  # begun, so it loads nothing of what serves.
  class Top
    include CommandLine
    include Control::TargetFlags

    # Most looks are without a terminal, and do without what it needs.
    %i[Acts Frame Grid Header Help Keys Pages Places Prompt Reader Server Session Style Terminal View].each do |name|
      autoload name, File.expand_path("top/#{name.downcase}", __dir__)
    end

    # Seconds between two looks.
    PACES = (0.2..10)
    WIDTH = 80
    private_constant :PACES, :WIDTH

    # @param argv [Array<String>] what follows on `top`; is not changed
    # @param out [IO]
    # @param err [IO] for errors
    # @param input [IO]
    # @param env [#[]] the environment's variables
    # @return [Integer] the process's exit status
    def self.run(argv, out: $stdout, err: $stderr, input: $stdin, env: ENV) = new(argv, out:, err:, input:, env:).run

    def initialize(argv, out:, err:, input:, env:)
      @argv = argv
      @out = out
      @err = err
      @input = input
      @env = env
      @flags = usual_flags(env)
      @options = {}
      @pace = 1.0
    end

    # @return [Integer] the exit status
    def run
      rest = parser.parse(@argv)
      return 0 if @done

      name_process(rest)
      show(Server.new(@flags))
      0
    rescue OptionParser::ParseError, Error, Control::Client::Failed => e
      @err.puts("abaca: #{e.message}")
      1
    rescue Interrupt
      130
    end

    private

    def parser
      OptionParser.new("Usage: abaca top [options] [PID]", 34) do |words|
        words.separator("\nWhich server (the default is what config/abaca.rb or config/puma.rb says, or the only one):")
        targets(words)
        words.separator("\nWhat is shown:")
        shown(words)
        words.on("-h", "--help", "Print this help and exit") { finish(words.help) }
      end
    end

    def shown(words)
      words.on("-n", "--looks NUMBER", Integer,
               "End after so many looks; 0: never (default: 1 without a terminal)") do |n|
        raise OptionParser::InvalidArgument, "0 or more" if n.negative?

        @looks = n
      end
      words.on("-d", "--delay SECONDS", Float, "Between two looks: 0.2 to 10 (default: 1)") do |seconds|
        raise OptionParser::InvalidArgument, "0.2 to 10" unless PACES.cover?(seconds)

        @pace = seconds
      end
      words.on("--screen NAME", Sight::SCREENS.keys, "Only #{Sight::SCREENS.keys.join(', ')}") { |name| @screen = name }
      words.on("--filter TEXT", "Only rows that have this text") { |text| @options[:filter] = text }
      words.on("-w", "--worker NUMBER", Integer, "Only of this worker") { |number| @options[:worker] = number }
      words.on("--json", "A line of JSON for each look") { @json = true }
    end

    def name_process(rest)
      raise ConfigError, "one process only, not #{rest.join(' and ')}" if rest.size > 1
      return if rest.empty?

      @flags[:pid] = Integer(rest.first, 10, exception: false)
      raise ConfigError, "#{rest.first} is not a process id" unless @flags[:pid]&.positive?
    end

    def show(server)
      sight = Sight.new(server.page, master: server.pid)
      style = Style.of(@env, terminal: terminal?)
      return pages(server, sight, style) if @json || style.dumb

      view = View.new(sight, style:, screen: @screen || :workers, filter: @options[:filter].to_s,
                             worker: @options[:worker])
      looks = @looks&.zero? ? nil : @looks
      Session.new(server, terminal: Terminal.new(@input, @out), style:, view:, pace: @pace, looks:).run(sight)
    end

    def pages(server, sight, style)
      screens = @screen ? [@screen] : Sight::SCREENS.keys
      Pages.new(sight, out: @out, style:, screens:, places: Places.new(server), **@options)
           .write(looks: @looks || 1, pace: @pace, json: @json, width:)
    end

    def terminal? = @out.tty? && @input.tty?

    def width
      found = columns
      found >= 40 ? found : WIDTH
    end

    def columns
      return @env["COLUMNS"].to_i unless @out.tty?

      require "io/console"
      @out.winsize.last
    end
  end
end
