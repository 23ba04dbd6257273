# frozen_string_literal: true

require "timeout"

module Bench
  # The clients in C, whose last line has figures.
  module Client
    # @param program [String] below clients/
    # @param words [Array<String>] its arguments
    # @param limit [Numeric] seconds that it may take
    # @param libraries [Array<String>] that it needs
    # @param prefix [Array<String>] begins the command
    # @return [Hash{Symbol => Integer}] the name=number pairs of its last line
    # @yieldparam talk [IO] to a client that awaits lines, until it has the last one
    # @raise [Unavailable, Failed] when there are none
    def self.figures(program, *words, limit: 120, prefix: [], libraries: [])
      command = [*prefix, Compiler.program("clients/#{program}.c", *libraries), *words]
      text = Bench.account.client { talk_to(command, limit) { |io| yield io if block_given? } }
      found = text.lines.last.to_s.scan(/(\w+)=(-?\d+)/).to_h { |key, number| [key.to_sym, number.to_i] }
      found.empty? ? raise(Failed, "#{program}: #{text.strip}") : found
    rescue Timeout::Error
      raise Failed, "hangs: #{program} did not end within #{limit} s"
    end

    # One that has not come to its end is ended, since the pipe would wait for it.
    def self.talk_to(command, limit)
      IO.popen(command, "r+", err: %i[child out]) do |talk|
        text = Timeout.timeout(limit) do
          yield talk
          talk.close_write
          talk.read
        end
      ensure
        Process.kill(:KILL, talk.pid) unless text
      end
    end
    private_class_method :talk_to
  end
end
