# frozen_string_literal: true

# The outbox as a serializer: calls, allocations, collections, a 3.6 GB upload echoed. See README.md.
# Usage: ruby bench/serializer.rb --help

require "json"
require "optparse"
require_relative "support/bench"
require_relative "servers/catalog"
require_relative "servers/field"
require_relative "serializer/calls"
require_relative "serializer/deques"
require_relative "serializer/cells"
require_relative "serializer/c_deques"
require_relative "serializer/gets"
require_relative "serializer/echoes"

module Bench
  # The parts, each with a title and what measures it.
  class Serializer
    ITEMS = [1, 2, 16].freeze # queued before a deque is emptied
    TIMES = 1_000_000 # items in a turn of a Ruby deque
    PARTS = %w[calls deques gets echoes].freeze

    def initialize(options)
      @options = options
      @cpu = options[:pinned] ? 0 : nil
    end

    # @return [Array] of what runs, renders and becomes data, by title
    def part(name)
      case name
      when "calls" then { "what gathers output in Ruby" => calls }
      when "deques"
        { "three ways to say empty, by items queued before each drain" => ruby_deques, "the same in C" => c_deques }
      when "gets" then { "wrk -t1 -c#{Gets::CONNECTIONS} -d#{@options[:seconds]}s, #{Gets::SIZE} octets" => gets }
      when "echoes" then { "a POST of #{@options[:megabytes]} MB echoed, #{@options[:framing]}" => echoes }
      end
    end

    private

    def share(times) = [times / @options[:share], 100].max

    def calls
      Cells.new(kind: "calls", columns: Calls::ROWS.transform_values { |row| share(row.times) },
                names: Calls::TARGETS.keys, titles: Calls::ROWS.transform_values(&:title),
                rounds: @options[:rounds], cpu: @cpu)
    end

    def ruby_deques
      Cells.new(kind: "deques", columns: ITEMS.to_h { |items| [items.to_s, share(TIMES / items)] },
                names: Deques::ALL.keys, rounds: @options[:rounds], cpu: @cpu)
    end

    def c_deques = CDeques.new(items: ITEMS, share: @options[:share], cpu: @cpu)
    def gets = Gets.new(**@options.slice(:only, :rounds, :seconds, :pinned))
    def echoes = Echoes.new(**@options.slice(:only, :rounds, :megabytes, :framing, :limit, :pinned))
  end
end

options = { parts: Bench::Serializer::PARTS, rounds: 3, seconds: 10, megabytes: 3686, framing: "length", limit: 120,
            only: %w[abaca puma falcon iodine], share: 1, pinned: true }
OptionParser.new do |parser|
  parser.banner = "usage: bin/bench serializer [options]"
  parser.on("--quick", "one round, little of everything: for a look, not for a claim") do
    options.update(rounds: 1, seconds: 1, megabytes: 256, limit: 30, share: 20)
  end
  parser.on("--parts A,B", Array, "only these: #{options[:parts].join(" ")}") { |names| options[:parts] &= names }
  parser.on("--rounds N", Integer, "interleaved rounds (3)") { |n| options[:rounds] = n }
  parser.on("--seconds S", Integer, "of each turn of wrk (10)") { |s| options[:seconds] = s }
  parser.on("--megabytes N", Integer, "of the body that is echoed (3686)") { |n| options[:megabytes] = n }
  parser.on("--framing KIND", %w[length chunked], "of that request (length)") { |kind| options[:framing] = kind }
  parser.on("--limit S", Integer, "seconds for one echo (120)") { |s| options[:limit] = s }
  parser.on("--only A,B", Array, "only these servers") { |names| options[:only] = names }
  parser.on("--unpinned", "leave server and client to the kernel's scheduler") { options[:pinned] = false }
end.parse!

begin
  serializer = Bench::Serializer.new(options)
  done = options[:parts].flat_map { |name| serializer.part(name).to_a }.to_h
  done.each do |title, part|
    part.run
    puts "", "## #{title}", "", part.render
  end
  path = Bench::Results.write("serializer", options.merge(parts: done.transform_values(&:to_h)))
  puts "", "written to #{path}"
rescue Bench::Unavailable, Bench::Failed, ArgumentError => e
  abort "bench: #{e.message}"
end
