# frozen_string_literal: true

module Abaca
  class Control
    # What the page says of requests and times, as answers. No process is asked, so it is the same while all of them
    # hang. A request's id is that of its worker's slot and its own: `0.4711`.
    class Views
      # Requests in an answer, where nobody says how many.
      USUAL = 100
      # The percentiles of a route.
      PARTS = { p50: 0.5, p95: 0.95, p99: 0.99 }.freeze
      private_constant :USUAL, :PARTS

      # @param slots [Launcher::Cluster::Slots, Launcher::OnlySlot] the page
      def initialize(slots)
        @page = slots.page
        @most = slots.most
      end

      # The requests in flight, the oldest first: `most` of them, with their last waits for `waits=1`.
      #
      # @param request [Request]
      # @param rows [Boolean] whether each request is a Hash, and not only JSON
      # @return [Hash{Symbol => Object}]
      def requests(request, rows: request.prefers?("text/plain"))
        most = Integer(request.parameter("most") || USUAL, 10, exception: false) || USUAL
        wanted = { most: most.clamp(1, Page::MOST_ROWS), waits: request.parameter("waits") == "1" }
        states = @page.states
        found = rows ? @page.requests(**wanted).map { |row| one(row) } : @page.request_lines(**wanted, numbers: @most)
        { total: states.values.sum, states:, requests: found }
      end

      # @param slot [Integer]
      # @param number [Integer]
      # @return [Boolean] whether there is such a request now
      def request?(slot, number) = slot < @page.size && !@page[slot].request(number).nil?

      # Requests that were slow, failed or sampled, the newest first, with their waits.
      #
      # @return [Hash{Symbol => Object}]
      def kept(_request) = { kept: @page.kept.map { |row| one(row) } }

      # What each loop does now.
      #
      # @return [Hash{Symbol => Object}]
      def loops(_request)
        { loops: @page.loops.map { |row| of_worker(row).merge(request: row[:request] && id(row, row[:request])) } }
      end

      # The routes, those with most time first.
      #
      # @return [Hash{Symbol => Object}]
      def routes(_request)
        times = @page.series.select { |series| series[:kind] == :request }.group_by { |series| series[:route] }
        rows = @page.routes.map { |row| { **row, **percentiles(times[row[:route]]) } }
        { routes: rows.sort_by { |row| -row[:sums].values.sum } }
      end

      # What requests wait for: one row for each database, upstream or lock, those that most wait for first.
      #
      # @return [Hash{Symbol => Object}]
      def waits(_request)
        found = @page.waiting.group_by { |wait| wait.first(2) }.map do |(kind, target), all|
          { kind:, target:, now: all.sum { |wait| wait[2] }, longest: all.map(&:last).max }
        end
        states = @page.states
        { looked_at: states.values.sum, waits: found.sort_by { |row| [-row[:now], -row[:longest]] }, states:,
          sums: @page.totals[:sums] }
      end

      # The addresses with most requests.
      #
      # @return [Hash{Symbol => Object}]
      def clients(_request) = { clients: @page.clients }

      # Requests that kept their loops: now, so far, and the last of them.
      #
      # @return [Hash{Symbol => Object}]
      def stalls(_request)
        totals = @page.totals
        { stalls: totals[:stalls], seconds: totals[:stall_time],
          now: loops(nil)[:loops].select { |row| row[:state] == :stalled },
          events: event_rows.select { |row| row[:kind] == :stall } }
      end

      # What has happened, the newest first.
      #
      # @return [Hash{Symbol => Object}]
      def events(_request) = { events: event_rows }

      # Of each second of ten minutes or, with `width=tens`, of ten seconds each in six hours.
      #
      # @param request [Request]
      # @return [Hash{Symbol => Object}]
      def history(request)
        width = request.parameter("width") == "tens" ? :tens : :seconds
        { width:, history: @page.history(width).map { |row| row.merge(at: time(row[:at])) } }
      end

      # @return [Array<Hash{Symbol => Object}>] events as JSON has them, the newest first
      def event_rows
        @page.events.map do |row|
          { id: id(row, row[:number]), **of_worker(row).except(:number), at: time(row[:at]),
            request: row[:request] && id(row, row[:request]) }
        end
      end

      private

      def one(row)
        found = of_worker(row)
        found[:id] = id(row, row[:id])
        found[:ended_at] = time(row[:ended_at]) if row[:ended_at]
        found.delete(:number)
        found
      end

      # In place of the slot, of which a number has two.
      def of_worker(row)
        found = { worker: row[:slot] % @most, **row }
        found.delete(:slot)
        found
      end

      def id(row, number) = Sight.id(row[:slot], number)

      def time(value) = value&.getutc&.strftime("%FT%T.%LZ")

      def percentiles(series)
        latency = (series || []).each_with_object(Sight::Latency.new) { |one, all| all.add(one) }
        PARTS.transform_values { |part| latency.quantile(part)&.round(6) }
      end
    end
  end
end
