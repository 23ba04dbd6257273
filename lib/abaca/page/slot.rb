# frozen_string_literal: true

module Abaca
  class Page
    # What a slot says of requests and times (docs/page.md names each key). Nobody is asked: it is what stands there,
    # also while the worker hangs. What is in flight is gone with its process; what was counted goes on with the next
    # one in the slot. Durations are Floats, in seconds.
    #
    # Paths are binary Strings: what clients have sent, but for the query, up to 128 bytes. Routes and texts of events
    # are UTF-8, and may be cut off within a character.
    class Slot
      # @param most [Integer, nil] no more than so many
      # @param waits [Boolean] with `waits:`, the last 32 of a millisecond or more: [[at, seconds, state, peer], ...]
      # @return [Array<Hash>] the requests that are in the app or wait to be taken, the oldest first: id, age, state,
      #   since, mode, phase, method, path, route, peer, waits_for, status, place, children, sums, trace; cpu where it
      #   is measured. A hundred cost less than 0.5 ms, all of 5,000 about 9 ms.
      def requests(most: nil, waits: false) = rows(most || MOST_ROWS, waits)

      # @!method request(id)
      #   @param id [Integer]
      #   @return [Hash, nil] one of #requests, with its waits

      # @!method tally
      #   @return [Hash] of the requests that are there now: `states`, how many are in each; `sums`, their seconds by
      #     state so far; `waits`, [[state, place, how many, seconds of the longest], ...], where the place is nil if it
      #     is not known, or there are too many. All of 5,000 cost less than a millisecond.

      # @!method states
      #   @return [Hash{Symbol => Integer}] how many requests are in each state; costs less than #requests

      # @!method loops
      #   @return [Array<Hash>] index, kind, state, since, request (an id), tid, ticks, sums (by state)

      # @!method routes
      #   @return [Array<Hash>] route, requests, errors, stalls, stall_time, sums (by state). "_OTHER" is all routes for
      #     which there was no name left.

      # @param buckets [Boolean] with `buckets:`, `least:` and `most:`
      # @return [Array<Hash>] kind, route, method, status, count, sum; counts, by OpenTelemetry's 14 bounds and beyond
      #   them; buckets, {i => count} for times from 2^((i-1)/8) to 2^(i/8) s, from -111 to 56, with least and most for
      #   those below and beyond. What found no series of its own is in one of its kind, of the route "_OTHER", without
      #   a status.
      def series(buckets: true) = times(buckets)

      # @!method events
      #   @return [Array<Hash>] the last 256, the newest first: number, kind, at, request, time, pid, status, text. Of a
      #     stall `at` is when it began; while it lasts, lasts is true, and time its length so far; afterwards computed
      #     is its CPU time.

      # Writes an event. Any process that has the page may, of any slot.
      #
      # @param kind [Symbol] :boot, :drain, :death, :stall, :reject, :gc, :cancel, :error, :mode, :memory, :mark,
      #   :log
      # @param text [String] kept as far as 80 bytes
      # @param time [Float, nil] seconds that it took
      # @param request [Integer, nil] its id
      # @return [nil]
      # @raise [ArgumentError] for another kind
      # @raise [Error] if the page is another server's
      def note(kind, text = "", pid: Process.pid, request: nil, time: nil, status: nil)
        write_event(kind, text, pid, request || 0, time || 0, status || 0, false)
        nil
      end

      # Writes an event of this process that is not over.
      #
      # @param kind [Symbol] as for #note
      # @param text [String] as for #note
      # @param request [Integer, nil] as for #note
      # @param time [Float] seconds since it began
      # @return [Integer] its number, for #end_event
      # @raise [ArgumentError, Error] as #note
      def begin_event(kind, text, time:, request: nil)
        write_event(kind, text, Process.pid, request || 0, time, 0, true)
      end

      # @!method end_event(number, seconds, computed)
      #   Ends an event of #begin_event. Nothing happens if it has been overwritten meanwhile.
      #   @param number [Integer] as #begin_event has returned it
      #   @param seconds [Float] how long it was
      #   @param computed [Float] CPU time of it; 0: not known
      #   @return [nil]
      #   @raise [Error] if the page is another server's

      # @!method kept
      #   @return [Array<Hash>] the last 200 requests that were slow, failed or sampled, the newest first: as #requests,
      #     with number, ended_at, reasons, waits

      # @!method pools
      #   @return [Array<Hash>] the connection pools of the app: pool, size, busy, idle, waiting, timeouts, checkouts,
      #     time; pools of one name together

      # @!method clients
      #   @return [Array<Hash>] the 64 addresses with most requests: address, requests (at most `over` too high), bytes,
      #     open, slow, errors

      # @!method restarts
      #   @return [Hash{Symbol => Integer}] processes of the slot that were, or are to be, followed by others, by
      #     reason: death, timeout, restart, refork, recycle, drain

      # @!method count_restart(reason)
      #   Counts one more. For the page's creator.
      #   @param reason [Symbol]
      #   @return [nil]
      #   @raise [ArgumentError] for another reason

      # @!method totals
      #   @return [Hash] counters of all that have had the slot: ended, failed, stalls, stall_time, sums, kept, events,
      #     rows_missed, routes_dropped, series_dropped, pools_dropped, gc_time, gc_minor, gc_major, loops

      # @!method process
      #   @return [Hash] of this process, now: cpu, rss (megabytes), fibers, fibers_most, threads, threads_most,
      #     offloads, stall_after; places for requests in the app, and queue_most that may wait: nil where that is not
      #     known, or any number

      # @param width [Symbol] :seconds, of the last ten minutes, or :tens, of ten seconds each, of the last six hours
      # @param most [Integer, nil] of the last ticks only so many: the one that is not over counts
      # @return [Array<Hash>] the oldest first: tick, at, requests, failed, in_app, waiting, p50, p95, p99
      #   (microseconds), connections, cpu (ms), rss (MB), run, db, pool, http, stalls, gc (ms). Ticks without a record
      #   are left out.
      # @raise [ArgumentError] for another width
      def history(width, most: nil)
        raise ArgumentError, "history(:seconds) or history(:tens), not #{width.inspect}" unless WIDTHS.key?(width)

        records(WIDTHS[width], most || MOST_ROWS)
      end

      WIDTHS = { seconds: false, tens: true }.freeze
      private_constant :WIDTHS
    end
  end
end
