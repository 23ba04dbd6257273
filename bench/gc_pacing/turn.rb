# frozen_string_literal: true

# Parks fibers, then does units of work in a job of the same pool and prints the figures as a line of JSON:
# `ruby turn.rb '{"fibers":0,"pacing":true,"units":60000}'`.
require "json"
require "abaca/fiber_pool"
require "abaca/scheduler"
require_relative "../support/clock"

module Bench
  # The code of a turn.
  module PacingTurn
    module_function

    # About what a request allocates: 20 strings, 25 objects and a Hash.
    def unit
      fields = {}
      20.times { |i| fields[i] = "short#{i}" }
      25.times { Object.new }
      fields
    end

    def run(fibers:, pacing:, units:)
      Fiber.set_scheduler(Abaca::Scheduler.new)
      pool = Abaca::FiberPool.new(gc_pacing: pacing)
      parked = Array.new(fibers) { pool.run { sleep } }
      job = pool.run { measure(pool, units) }
      puts JSON.generate(job.value)
      $stdout.flush
      parked.clear
      exit!(0)
    end

    # A chunk is half of a loop's turn, so that the pool's work between the turns gets its time.
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
end

Bench::PacingTurn.run(**JSON.parse(ARGV.first, symbolize_names: true))
