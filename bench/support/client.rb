# frozen_string_literal: true

require "timeout"

module Bench
  # The clients in C, whose last line has figures.
  module Client
    # @param program [String] below clients/
    # @param words [Array<String>] its arguments
    # @param limit [Numeric] seconds that it may take
    # @param prefix [Array<String>] begins the command
    # @return [Hash{Symbol => Integer}] the name=number pairs of its last line
    # @raise [Unavailable, Failed] when there are none
    def self.figures(program, *words, limit: 120, prefix: [])
      command = [*prefix, Compiler.program("clients/#{program}.c"), *words]
      text = Timeout.timeout(limit) { IO.popen(command, err: %i[child out], &:read) }
      found = text.lines.last.to_s.scan(/(\w+)=(-?\d+)/).to_h { |key, number| [key.to_sym, number.to_i] }
      found.empty? ? raise(Failed, "#{program}: #{text.strip}") : found
    rescue Timeout::Error
      raise Failed, "hangs: #{program} did not end within #{limit} s"
    end
  end
end
