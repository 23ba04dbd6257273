# frozen_string_literal: true

module Abaca
  class Metrics
    # The processes that serve, by numbers of workers: at a restart, two processes have the same one.
    class Workers
      # What a slot says of a process that lives.
      ALIVE = %i[booting serving draining].freeze
      private_constant :ALIVE

      # @param slots [Launcher::Cluster::Slots, Launcher::OnlySlot] the page
      # @param clustered [Boolean] whether there is a master
      def initialize(slots, clustered:)
        @page = slots.page
        @most = slots.most
        @clustered = clustered
      end

      # @return [Boolean] whether there is a master
      def clustered? = @clustered

      # @return [Array<Array(Integer, Page::Slot)>] the numbers and slots of processes that live
      def live = taken.select { |_, slot| ALIVE.include?(slot.state) }

      # @param text [Text]
      def write(text, _found)
        taken = self.taken
        live = taken.select { |_, slot| ALIVE.include?(slot.state) }
        processes(text, live)
        text.counter("abaca_worker_restarts_total", "Workers that were replaced, by why they have ended.",
                     restarts(taken))
        loops(text, taken, live)
        pools(text, live.map { |_, slot| slot.process })
      end

      private

      def taken = @page.filter_map { |slot| [slot.index % @most, slot] if slot.pid }

      def processes(text, live)
        states = live.map { |_, slot| slot.state }
        text.gauge("abaca_workers", "Processes that serve, by state.",
                   ALIVE.to_h { |state| [{ state: }, states.count(state)] })
        text.gauge("abaca_worker_heartbeat_age_seconds", "Time since a worker's last heartbeat.",
                   live.each_with_object({}) do |(worker, slot), ages|
                     age = slot.beat_age or next
                     ages[{ worker: }] = [ages[{ worker: }], age].compact.max
                   end)
      end

      def restarts(taken)
        return unless clustered?

        slots = taken.empty? ? [@page[0]] : taken.map(&:last)
        slots.map(&:restarts).reduce { |all, one| all.merge(one) { |_, a, b| a + b } }
             .transform_keys { |reason| { reason: } }
      end

      def loops(text, taken, live)
        seconds = Hash.new(0)
        taken.each do |worker, slot|
          slot.totals[:loops].each { |state, time| seconds[{ worker:, state: }] += time }
        end
        text.counter("abaca_loop_seconds_total", "What a worker's loops have done.", seconds)
        loops = live.flat_map { |_, slot| slot.loops }
        stalled = loops.select { |line| line[:state] == :stalled }
        text.gauge("abaca_stall_current_seconds", "The longest stall that is not over: it grows meanwhile.",
                   (stalled.map { |line| line[:since] }.max || 0 unless loops.empty?))
      end

      def pools(text, found)
        return if found.empty?

        { fibers: ["abaca_fibers", "Fibers."], fibers_most: ["abaca_fibers_max", "The most fibers so far."],
          threads: ["abaca_threads", "Threads of the pools."],
          threads_most: ["abaca_threads_max", "The most threads so far."],
          offloads: ["abaca_offload_jobs", "Jobs that other threads do for fibers."] }.each do |key, (name, help)|
          text.gauge(name, help, found.sum { |one| one[key] })
        end
      end
    end
  end
end
