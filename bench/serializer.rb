# frozen_string_literal: true

# The outbox as a serializer: calls, allocations, collections, a 3.6 GB upload echoed. See README.md.
# Usage: ruby bench/serializer.rb --help

require "json"
require_relative "support/bench"
require_relative "servers/field"
require_relative "serializer/calls"
require_relative "serializer/cells"
require_relative "serializer/gets"
require_relative "serializer/echoes"

module Bench
  # The parts, each with a title and what measures it.
  class Serializer
    PARTS = %w[calls gets echoes].freeze

    def initialize(options)
      @options = options
      @cpu = options[:pinned] ? 0 : nil
    end

    # @return [Array(String, Object)] its title, and what runs, renders and becomes data
    def part(name)
      case name
      when "calls" then ["what gathers output in Ruby", calls]
      when "gets" then ["wrk -t1 -c#{Gets::CONNECTIONS} -d#{@options[:seconds]}s, #{Gets::SIZE} bytes", gets]
      when "echoes" then ["a POST of #{@options[:megabytes]} MB echoed, #{@options[:framing]}", echoes]
      end
    end

    private

    def share(times) = [times / @options[:share], 100].max

    def calls
      Cells.new(columns: Calls::ROWS.transform_values { |row| share(row.times) },
                names: Calls::TARGETS.keys, titles: Calls::ROWS.transform_values(&:title),
                **@options.slice(:rounds, :ruby), cpu: @cpu)
    end

    def gets = Gets.new(**@options.slice(:only, :ruby, :rounds, :seconds, :pinned))
    def echoes = Echoes.new(**@options.slice(:only, :ruby, :rounds, :megabytes, :framing, :limit, :pinned))
  end
end

Bench.main("serializer") do |main|
  main.quick("one round, little of everything", rounds: 1, seconds: 1, megabytes: 256, limit: 30, share: 20)
  main.option(:parts, Bench::Serializer::PARTS, "only these")
  main.option(:rounds, 3, "interleaved rounds")
  main.option(:seconds, 10, "of each turn of wrk")
  main.option(:megabytes, 3686, "of the body that is echoed")
  main.option(:framing, "length", "of that request: length or chunked", type: %w[length chunked])
  main.option(:limit, 120, "seconds for one echo")
  main.option(:only, %w[abaca puma falcon iodine], "only these servers")
  main.option(:share, 1, "divides the operations of a turn")
  main.ruby
  main.unpinned
  main.measure do |options|
    serializer = Bench::Serializer.new(options)
    parts = (Bench::Serializer::PARTS & options[:parts]).to_h { |name| serializer.part(name) }
    { parts: parts.to_h { |title, part| [title, main.show(part, "## #{title}")] } }
  end
end
