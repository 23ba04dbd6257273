# frozen_string_literal: true

module Abaca
  class Sight
    # A page at one moment: what counts is copied, so that a later reading can be compared with it; what is only shown
    # is read when it is asked for.
    class Reading
      # States of a loop that is kept.
      KEPT = %i[busy stalled].freeze
      private_constant :KEPT

      # A slot's process and what it has counted.
      Worker = Struct.new(:slot, :index, :pid, :state, :phase, :started_at, :beat_age, :figures, :totals, :in_flight,
                          :claims, :loops, :routes, :series, :clients, :process, keyword_init: true) do
        # @return [Boolean] whether there is a process that serves, or is about to
        def there? = !(pid.nil? || state == :ended || state == :empty)

        # @return [Hash{Symbol => Float}] seconds of its requests by state, those in flight included
        def seconds = @seconds ||= totals[:sums].merge(in_flight[:sums]) { |_, ended, now| ended + now }

        # @return [Float] seconds in which its loops were kept by something, those that they are kept since included
        def busy
          now = loops.sum { |one| KEPT.include?(one[:state]) ? one[:since] : 0.0 }
          totals[:loops].values_at(*KEPT).compact.sum + now
        end

        # @return [Integer] requests that it has answered 503 without the app
        def rejected = figures[:rejected].values.sum

        # @return [Integer] how many processes have had its slot before
        def restarts = [claims - 1, 0].max
      end

      # @return [Float] monotonic seconds
      attr_reader :at
      # @return [Time]
      attr_reader :time
      # @return [Array<Worker>] of all slots that were ever in use
      attr_reader :workers
      # @return [Machine::Sample]
      attr_reader :machine

      # @param page [Page]
      # @param master [Integer, nil] its process, where it is none of the workers
      # @param machine [Machine]
      def initialize(page, master:, machine:)
        @at = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        @time = Time.now
        @page = page
        @sums = page.sums
        # A cluster has two slots for each number of a worker, and room for more workers than there are.
        @numbers = [page.slots.size / 2, 1].max
        @workers = page.slots.select { |slot| slot.claims.positive? }.map { |slot| worker(slot) }
        @by_slot = @workers.to_h { |worker| [worker.slot.index, worker] }
        @machine = machine.sample([master, *there.map(&:pid)].compact.uniq, @at)
      end

      # @return [Array<Worker>] those with a process
      def there = @there ||= @workers.select(&:there?)

      # @return [Hash{Symbol => Object}] figures of all processes that the server has had
      attr_reader :sums

      # @return [Integer] requests that the app has answered, and those that were rejected without it
      def answered = @workers.sum { |worker| worker.totals[:ended] } + rejected

      # @return [Integer] requests answered 503 without the app
      def rejected = sums[:rejected].values.sum

      # @return [Hash{Symbol => Integer}] requests in each state now
      def states = @states ||= there.map { |one| one.in_flight[:states] }.reduce({}) { |all, one| add(all, one) }

      # @return [Hash{Symbol => Float}] seconds that requests have spent in each state, those in flight included
      def seconds = @seconds ||= @workers.map(&:seconds).reduce({}) { |all, one| add(all, one) }

      # @return [Array<Hash>] of the page
      def events = @events ||= @page.events

      # @param worker [Worker] of another reading
      # @return [Worker, nil] what there was in its slot
      def in_slot_of(worker) = @by_slot[worker.slot.index]

      # @param slot [Integer]
      # @return [Integer] the number of the worker that has it
      def number(slot) = slot % @numbers

      # @param worker [Worker]
      # @param most [Integer, nil] the oldest only
      # @return [Array<Hash>] requests in the app and in the queue
      def requests(worker, most: nil)
        @requests ||= {}
        @requests[[worker.slot.index, most]] ||= worker.slot.requests(most:)
      end

      # @param most [Integer]
      # @return [Page::Line::Written] the oldest requests of all workers, as Screens::Requests has them in JSON
      def request_lines(most) = @page.request_lines(most:, numbers: @numbers, brief: true)

      # @param worker [Worker]
      # @param id [Integer]
      # @return [Hash, nil] a request that is there now, with its waits
      def request(worker, id) = worker.slot.request(id)

      # @return [Hash, nil] one that is no more, if it was kept
      def kept(worker, id) = worker.slot.kept.find { |one| one[:id] == id }

      private

      def add(all, one) = all.merge(one) { |_, left, right| left + right }

      def worker(slot)
        Worker.new(slot:, index: slot.index % @numbers, pid: slot.pid, state: slot.state, phase: slot.phase,
                   started_at: slot.started_at, beat_age: slot.beat_age, figures: slot.figures,
                   totals: slot.totals, in_flight: slot.tally, claims: slot.claims, loops: slot.loops,
                   routes: slot.routes, series: slot.series, clients: slot.clients, process: slot.process)
      end
    end
  end
end
