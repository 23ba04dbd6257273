# frozen_string_literal: true

require_relative "latency"

module Abaca
  class Sight
    # Two readings: what there is, and what has happened between them.
    class Look
      # @return [Reading] the later one
      attr_reader :now
      # @return [Machine]
      attr_reader :machine
      # @return [Float] seconds between the readings
      attr_reader :seconds

      # @param now [Reading]
      # @param before [Reading, nil] nil: nothing has happened
      # @param machine [Machine] has what is read less often
      # @param master [Integer, nil] the master's process
      def initialize(now, before, machine:, master:)
        @now = now
        @before = before
        @machine = machine
        @master = master
        @seconds = before ? now.at - before.at : 0.0
      end

      # @return [Integer, nil] the master's process, or the only one
      attr_reader :master

      # @return [Hash{String => String}] the lines of the app where requests are, by their ids, as far as somebody has
      #   asked their processes
      attr_writer :places

      # @return [Hash{String => String}]
      def places = @places || {}

      # @yield [Reading] gives a counter of it
      # @return [Float, nil] how much it has grown in a second; nil when there is no time to compare with
      def rate
        return unless @seconds.positive?

        [yield(@now) - yield(@before), 0].max / @seconds
      end

      # @param worker [Reading::Worker] of the later reading
      # @yield [Reading::Worker] gives a counter of it
      # @return [Float, nil] as #rate; that of a process that has begun meanwhile is counted from 0
      def rate_of(worker, &block)
        return unless @seconds.positive?

        [yield(worker) - (earlier(worker)&.then(&block) || 0), 0].max / @seconds
      end

      # @param worker [Reading::Worker] of the later reading
      # @yield [Reading::Worker] gives a counter that goes on with the next process in its slot
      # @return [Float, nil] as #rate
      def slot_rate(worker)
        return unless @seconds.positive?

        old = before(worker)
        [yield(worker) - (old ? yield(old) : 0), 0].max / @seconds
      end

      # @return [Hash{Symbol => Float}] the mean number of requests that were in each state
      def means
        return @now.states.transform_values(&:to_f) unless @seconds.positive?

        old = @before.seconds
        @now.seconds.to_h { |state, sum| [state, [sum - old.fetch(state, 0), 0].max / @seconds] }
      end

      # @param kinds [Array<Symbol>] of series
      # @param workers [Array<Reading::Worker>]
      # @yield [Hash] a series: whether it counts
      # @return [Latency] of what has ended between the readings
      def latency(*kinds, workers: @now.workers)
        workers.each_with_object(Latency.new) do |worker, all|
          old = old_series(worker)
          worker.series.each do |one|
            next unless kinds.include?(one[:kind]) && (!block_given? || yield(one))

            all.add(one, old[name(one)])
          end
        end
      end

      # @param kind [Symbol] of series
      # @yield [Hash] a series: whether it counts
      # @return [Integer] how many have ended between the readings
      def count(kind, workers: @now.workers)
        workers.sum do |worker|
          old = old_series(worker)
          worker.series.sum do |one|
            next 0 unless one[:kind] == kind && (!block_given? || yield(one))

            [one[:count] - (old[name(one)]&.fetch(:count) || 0), 0].max
          end
        end
      end

      # @return [Hash{Symbol => Integer}] requests answered 503 without the app between the readings, by reason: those
      #   with most first, without those that had none
      def rejections
        return {} unless @before

        @rejections ||= begin
          grown = @now.sums[:rejected].to_h { |why, count| [why, count - @before.sums[:rejected].fetch(why, 0)] }
          grown.select { |_, count| count.positive? }.sort_by { |_, count| -count }.to_h
        end
      end

      # @return [Hash{String => Hash}] for each route what has been counted between the readings, of all workers
      def routes
        @routes ||= @now.workers.each_with_object({}) do |worker, all|
          old = (before(worker)&.routes || []).to_h { |route| [route[:route], route] }
          worker.routes.each { |route| add_route(all, route, @before ? old[route[:route]] : route) }
        end
      end

      # @return [Hash{String => Hash}] the same for each client
      def clients
        @clients ||= @now.workers.each_with_object({}) do |worker, all|
          old = (before(worker)&.clients || []).to_h { |client| [client[:address], client] }
          worker.clients.each { |client| add_client(all, client, @before ? old[client[:address]] : client) }
        end
      end

      # @param pid [Integer]
      # @return [Float, nil] percent of a processor that a process takes
      def cpu(pid)
        return unless @seconds.positive?

        now, before = [@now, @before].map { |reading| reading.machine.processes[pid]&.cpu }
        [now - before, 0].max * 100 / @seconds if now && before
      end

      # @param pid [Integer]
      # @return [Boolean] whether a signal or a debugger holds the whole process
      def stopped?(pid) = %w[T t].include?(@now.machine.processes[pid]&.state)

      # @return [Float, nil] percent of the time in which the cgroup was not allowed to run
      def throttled
        return unless @seconds.positive?

        now, before = [@now, @before].map { |reading| reading.machine.throttled }
        [now - before, 0].max * 100 / @seconds if now && before
      end

      # @return [Reading::Worker, nil] the same process in the earlier reading
      def earlier(worker)
        one = before(worker)
        one if one && one.pid == worker.pid && one.started_at == worker.started_at
      end

      private

      # Of the slot, whatever process has it: there routes, series and clients are counted.
      def before(worker) = @before&.in_slot_of(worker)

      # Without an earlier reading nothing is new.
      def old_series(worker)
        @old_series ||= {}
        @old_series[worker.slot.index] ||= (before(worker) || worker).series.to_h { |one| [name(one), one] }
      end

      def name(series) = series.values_at(:kind, :route, :method, :status)

      def add_route(all, route, old)
        sum = all[route[:route]] ||= { requests: 0, errors: 0, stalls: 0, sums: Hash.new(0.0) }
        %i[requests errors].each { |key| sum[key] += [route[key] - (old ? old[key] : 0), 0].max }
        sum[:stalls] += route[:stalls]
        route[:sums].each { |state, time| sum[:sums][state] += [time - (old ? old[:sums].fetch(state, 0) : 0), 0].max }
      end

      def add_client(all, client, old)
        sum = all[client[:address]] ||= { open: 0, requests: 0, bytes: 0, errors: 0, slow: 0 }
        sum[:open] += client[:open]
        # The sketch may have given the place to another client, and back.
        %i[requests bytes errors slow].each { |key| sum[key] += [client[key] - (old ? old[key] : 0), 0].max }
      end
    end
  end
end
