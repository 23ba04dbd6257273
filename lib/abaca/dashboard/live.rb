# frozen_string_literal: true

module Abaca
  class Dashboard
    # What a browser is sent while it shows a screen, as an event stream: each second a look, with what is new in the
    # history and among the events.
    class Live
      # Seconds between two looks; the second one comes sooner, since the first one has no rates.
      PACE = 0.95
      FIRST = 0.4
      # Rows of a screen, and characters of a filter.
      ROWS = 200
      FILTER = 200
      # The charts' figures, in the order in which they are sent.
      HISTORY = %i[tick requests failed in_app waiting p50 p95 p99 connections cpu rss run db pool http stalls
                   gc].freeze
      WIDTHS = { "seconds" => :seconds, "tens" => :tens }.freeze
      # Ticks that are read again: the last one was not over.
      AGAIN = 3
      private_constant :PACE, :FIRST, :ROWS, :FILTER, :WIDTHS, :AGAIN

      # @param page [Page]
      # @param pulse [Pulse]
      # @param question [#call] gives the values of `screen`, `sort`, `turned`, `filter`, `worker` and `width`
      def initialize(page, pulse, question)
        @page = page
        @pulse = pulse
        @screen = SCREENS.fetch(question.call("screen").to_s.to_sym, SCREENS.values.first)
        @width = WIDTHS.fetch(question.call("width"), :seconds)
        @options = options(question)
        @seen = Hash.new(-1) # slot => number of an event
        @looks = 0
      end

      # @return [String] what is to be sent now: an event, or nothing
      def next
        return "" if @sent && now - @sent < (@looks < 2 ? FIRST : PACE)

        text = @pulse.look { |look, sight| event(look, sight) }
        @sent = now
        @looks += 1
        text
      end

      private

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def options(question)
        { sort: @screen.columns.map(&:key).find { |key| key.to_s == question.call("sort") },
          turned: question.call("turned") == "1", filter: question.call("filter").to_s[0, FILTER],
          worker: Integer(question.call("worker").to_s, 10, exception: false) }
      end

      def event(look, sight)
        "data: #{Sight::JSON.line(
          v: LAYOUT, at: look.now.time.to_f, seconds: look.seconds, overview: sight.overview(look).to_h,
          workers: look.now.there.map(&:index), screen: @screen.key,
          table: @screen.new(look, **@options).to_h(most: ROWS),
          width: @width, history:, events:
        )}\n\n"
      end

      # All of it at first.
      def history
        records = @looks.zero? ? @page.history(@width) : @page.history(@width, most: AGAIN)
        records.map { |record| [record[:at].to_f, *record.values_at(*HISTORY)] }
      end

      # Those that have not been sent.
      def events
        fresh = @page.events.select { |event| event[:number] > @seen[event[:slot]] }
        fresh.each { |event| @seen[event[:slot]] = [event[:number], @seen[event[:slot]]].max }
        fresh.map { |event| { at: event[:at].to_f, kind: event[:kind], worker: event[:slot], text: event[:text] } }
      end
    end
  end
end
