# frozen_string_literal: true

require "optparse"
require "shellwords"
require_relative "../command_line"

module Abaca
  class ServerTiming
    # The command `abaca timing`: a signed field for a request, or the whole line for curl.
    class Command
      include CommandLine

      # @param argv [Array<String>] what follows on `timing`; is not changed
      # @param out [IO]
      # @param err [IO] for errors
      # @return [Integer] the process's exit status
      def self.run(argv, out: $stdout, err: $stderr) = new(argv, out:, err:).run

      def initialize(argv, out:, err:)
        @argv = argv
        @out = out
        @err = err
        @settings = {}
        @seconds = USUAL
        @files = nil
      end

      # @return [Integer] the exit status
      def run
        urls = parser.parse(@argv)
        return 0 if @done
        raise ConfigError, "one URL only, not #{urls.join(' and ')}" if urls.size > 1

        show("#{FIELD}: #{guard.sign(@seconds)}", urls.first)
        0
      rescue OptionParser::ParseError, ConfigError => e
        @err.puts("abaca: #{e.message}")
        1
      end

      private

      def parser
        OptionParser.new("Usage: abaca timing [options] [URL]", 34) do |words|
          words.separator("\nA field that is signed with server_timing_secret: a request with it is answered with " \
                          "Server-Timing.\nWith a URL, the command for curl.\n")
          words.on("-C", "--config PATH", "The server's configuration file") { |path| (@files ||= []) << path }
          words.on("-e", "--environment NAME", "Its environment") { |name| @settings[:environment] = name }
          words.on("--for SECONDS", Integer, "How long it is good (default: #{USUAL}, at most #{MOST})") do |seconds|
            @seconds = seconds
          end
          words.on("-h", "--help", "Print this help and exit") { finish(words.help) }
        end
      end

      def guard
        raise ConfigError, "--for: 1 to #{MOST} seconds are needed, not #{@seconds}" unless @seconds.between?(1, MOST)

        secret = Config::Loader.new(@settings, files: @files, warnings: []).load[:server_timing_secret] or
          raise ConfigError, "there is no server_timing_secret in the configuration"
        ServerTiming.new(secret)
      end

      # Over HTTP/1.1 what comes after the head needs a client that takes trailers.
      def show(field, url)
        return @out.puts(field) unless url

        @out.puts("curl -sS -o /dev/null -D - -H #{field.shellescape} -H 'TE: trailers' #{url.shellescape}")
      end
    end
  end
end
