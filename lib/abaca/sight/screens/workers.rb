# frozen_string_literal: true

require_relative "../growth"
require_relative "../screen"

module Abaca
  class Sight
    module Screens
      # A row for each process that serves.
      class Workers < Screen
        describe :workers, "Workers", [
          figure(:worker, "W", :count, rank: 0), figure(:pid, "PID", :id, rank: 0), words(:state, "STATE", rank: 0),
          figure(:phase, "GEN", :count, rank: 4), figure(:up, "UP", :span, rank: 2), figure(:rate, "R/S", :rate),
          figure(:rejected, "503/S", :rate, rank: 2), figure(:in_app, "IN", :count),
          figure(:queue, "QUEUE", :count), figure(:busy, "LOOP%", :percent), figure(:lag, "LAG99", :seconds),
          figure(:stalls, "STALLS", :count, rank: 2), figure(:gc, "GC%", :percent), figure(:cpu, "CPU%", :percent),
          figure(:pss, "PSS", :bytes), figure(:anonymous, "ANON", :bytes, rank: 3),
          figure(:growth, "MB/H", :signed), figure(:restarts, "RESTARTS", :count, rank: 5)
        ], sort: :lag

        # Percent of the time from which a loop is nearly full.
        FULL = 85
        private_constant :FULL

        private

        def all
          workers.map do |worker|
            busy = share(worker, &:busy)
            gc = share(worker) { |one| one.totals[:gc_time] }
            stopped = @look.stopped?(worker.pid)
            cells = { worker: worker.index, pid: worker.pid, state: stopped ? :stopped : worker.state,
                      phase: worker.phase, **requests(worker), busy:, gc:, **memory(worker) }
            Row.new(id: worker.pid, cells:, mark: alarm?(cells) ? :alarm : nil, source: worker)
          end
        end

        def alarm?(cells) = cells[:state] == :stopped || cells[:busy].to_f >= FULL || cells[:rejected].to_f.positive?

        # What was rejected is a request, too.
        def requests(worker)
          rejected = @look.rate_of(worker, &:rejected)
          ended = @look.slot_rate(worker) { |one| one.totals[:ended] }
          { up: worker.started_at && (@look.now.time - worker.started_at), rate: rejected && (ended + rejected),
            rejected:, in_app: worker.figures[:in_app], queue: worker.figures[:waiting],
            lag: @look.latency(:loop_lag, :loop_lag_spare, workers: [worker]).quantile(0.99),
            stalls: worker.totals[:stalls], restarts: worker.restarts }
        end

        def memory(worker)
          memory = @look.machine.memory_of(worker.pid)
          growth = @look.machine.growth_of(worker.pid) || Growth.of(worker)
          { cpu: @look.cpu(worker.pid), pss: memory&.pss, anonymous: memory&.anonymous,
            growth: growth && (growth * 3600 / Units::MB) }
        end

        # Percent of the time: the block gives seconds, which are counted for the slot.
        def share(worker, &)
          rate = @look.slot_rate(worker, &)
          rate && (rate * 100)
        end
      end
    end
  end
end
