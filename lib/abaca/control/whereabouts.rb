# frozen_string_literal: true

require "json"

module Abaca
  class Control
    # Where requests are in the app, by line: what only the processes that serve know.
    class Whereabouts
      # Seconds for an answer, so that all is told within 150 ms, and requests that are asked for.
      TIME = 0.12
      MOST = 200
      private_constant :TIME, :MOST

      # @param crew [Crew]
      def initialize(crew)
        @crew = crew
      end

      # Adds `line` and `frames` to requests; `pending` to those whose process has not answered in time.
      #
      # @param rows [Array<Hash{Symbol => Object}>] with the ids that Views gives them
      # @return [Array<Hash{Symbol => Object}>]
      def add(rows)
        ids = rows.first(MOST).map { |row| row[:id].split(".").map(&:to_i) }.group_by(&:first)
        found = ask(ids.transform_values { |pairs| pairs.map(&:last) })
        rows.map do |row|
          slot, number = row[:id].split(".")
          next row unless found.key?(slot.to_i)

          answer = found[slot.to_i]
          row.merge(answer ? answer.fetch(number.to_sym, {}) : { pending: true })
        end
      end

      private

      # What each slot has answered; nil: nothing in time.
      def ask(ids)
        members = @crew.members.select { |member| ids.key?(member.slot) }
        answers = @crew.ask("frames", within: TIME, to: members, ids:)
        answers.to_h do |member, answer|
          [member.slot, answer&.status == 200 ? JSON.parse(answer.body, symbolize_names: true) : nil]
        end
      end
    end
  end
end
