# frozen_string_literal: true

require_relative "answer"

module Abaca
  class Control
    # The events of the page as a stream, for EventSource and curl: those that come from now on, or after the one that
    # the client has had last.
    class EventStream
      # Seconds between two looks, and between two comments, which show that the stream lives.
      LOOK = 0.5
      COMMENT = 15
      private_constant :COMMENT

      # @param views [Views]
      # @param last [String, nil] the id of an event
      def initialize(views, last)
        @views = views
        rows = @views.event_rows
        @seen = rows.map { |row| row[:id] }
        known = last && rows.index { |row| row[:id] == last }
        @seen = @seen.drop(known) if known
        @said = now
      end

      # @return [String] what is to be sent now, perhaps nothing
      def next
        rows = @views.event_rows
        fresh = rows.reject { |row| @seen.include?(row[:id]) }.reverse
        @seen = rows.map { |row| row[:id] }
        return comment if fresh.empty?

        @said = now
        fresh.map { |row| "id: #{row[:id]}\nevent: #{row[:kind]}\ndata: #{data(row)}\n\n" }.join
      end

      private

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def data(row) = Answer.line(row)

      def comment
        return "" if now - @said < COMMENT

        @said = now
        ":\n\n"
      end
    end
  end
end
