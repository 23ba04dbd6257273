# frozen_string_literal: true

# What parked fibers cost a request in garbage collection, with and without pacing: see README.md.
# Usage: ruby bench/gc_pacing.rb --help

require "json"
require "optparse"
require_relative "support/bench"

module Bench
  # Runs in a process of its own: parks fibers, then does the units and prints the figures as JSON.
  module PacingProbe
    module_function

    # About what a request allocates: 20 strings, 25 objects and a Hash.
    def unit
      fields = {}
      20.times { |i| fields[i] = "short#{i}" }
      25.times { Object.new }
      fields
    end

    def run(fibers:, pacing:, units:)
      require "abaca/fiber_pool"
      require "abaca/scheduler"
      Fiber.set_scheduler(Abaca::Scheduler.new)
      pool = Abaca::FiberPool.new(gc_pacing: pacing)
      parked = Array.new(fibers) { pool.run { sleep } }
      job = pool.run { measure(pool, units) }
      puts JSON.generate(job.value)
      $stdout.flush
      parked.clear
      exit!(0)
    end

    # Half of a loop's turn is a chunk, so that what the pool does between the turns gets its time.
    def measure(pool, units)
      settle
      count = GC.count
      gc = GC.total_time
      cpu = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
      (units / 50).times do
        50.times { unit }
        sleep 0
      end
      { "cpu_us" => (Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e6 / units,
        "gc_us" => (GC.total_time - gc) / 1e3 / units, "collections" => GC.count - count,
        "slots" => GC.stat(:heap_available_slots), "paced_slots" => pool.stats[:paced_slots],
        "rss_mb" => File.read("/proc/self/statm").split[1].to_i * 4096 / 1_048_576 }
    end

    # Until the heap has grown.
    def settle
      limit = Clock.now + 2
      while Clock.now < limit
        200.times { unit }
        sleep 0.002
      end
    end
  end

  # The table.
  class GcPacing
    def initialize(counts:, units:, rounds:)
      @cells = counts.product([false, true])
      @units = units
      @rounds = rounds
      @figures = Hash.new { |hash, key| hash[key] = [] }
    end

    def run
      @rounds.times do |round|
        warn "round #{round + 1} of #{@rounds}"
        (round.even? ? @cells : @cells.reverse).each { |cell| @figures[cell] << probe(*cell) }
      end
    end

    # @return [String] a table
    def render
      table = Table.new(["parked fibers", "pacing", "CPU µs/unit", "GC µs/unit", "× of none", "collections", "RSS MB"])
      @cells.each do |fibers, pacing|
        cell = [fibers, pacing]
        table.add(fibers, pacing ? "on" : "off", median(cell, "cpu_us").round(2), median(cell, "gc_us").round(2),
                  ratio(*cell).round(2), median(cell, "collections").round, median(cell, "rss_mb").round)
      end
      table.to_s
    end

    # @return [Hash] for the results file
    def to_h
      { units: @units, rounds: @rounds,
        rows: @cells.map do |fibers, pacing|
          { fibers:, pacing:, gc_ratio_to_none: ratio(fibers, pacing).round(3), samples: @figures[[fibers, pacing]] }
        end }
    end

    private

    def median(cell, name) = Statistics.median(@figures[cell].map { |figures| figures.fetch(name) })

    # Against no parked fiber and a heap as Ruby makes it.
    def ratio(fibers, pacing) = median([fibers, pacing], "gc_us") / median([@cells.first.first, false], "gc_us")

    def probe(fibers, pacing)
      text = Machine.output_of(RbConfig.ruby, "-I", File.join(ROOT, "lib"), __FILE__, "--probe",
                               JSON.generate({ fibers:, pacing:, units: @units }))
      raise Failed, "the probe with #{fibers} fibers did not run" unless text

      JSON.parse(text)
    rescue JSON::ParserError
      raise Failed, "the probe with #{fibers} fibers said: #{text}"
    end
  end
end

if ARGV.first == "--probe"
  Bench::PacingProbe.run(**JSON.parse(ARGV[1], symbolize_names: true))
else
  options = { counts: [0, 1000, 10_000], units: 60_000, rounds: 5 }
  OptionParser.new do |parser|
    parser.banner = "usage: bin/bench gc_pacing [options]"
    parser.on("--fibers A,B", Array, "parked fibers; the first is what others are compared to") do |list|
      options[:counts] = list.map { |count| Integer(count) }
    end
    parser.on("--units N", Integer, "units of each probe (60000)") { |n| options[:units] = n }
    parser.on("--rounds N", Integer, "probes of each setting (5)") { |n| options[:rounds] = n }
  end.parse!

  begin
    pacing = Bench::GcPacing.new(**options)
    pacing.run
    path = Bench::Results.write("gc_pacing", pacing.to_h)
    puts "", pacing.render, "", "written to #{path}"
  rescue Bench::Failed => e
    abort "bench: #{e.message}"
  end
end
