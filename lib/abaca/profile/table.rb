# frozen_string_literal: true

module Abaca
  class Profile
    # For people: the lines of the app where most time was spent.
    class Table < Form
      # Lines of the app that are shown, and characters of one.
      MOST = 40
      WIDEST = 80
      HEAD = %w[SECONDS SHARE STATE PLACE ROUTE].freeze
      private_constant :MOST, :WIDEST, :HEAD

      # @return [String]
      def text
        [@profile.title, *@profile.notes, *([""] + table if @profile.stacks.any?)].map { |line| "#{line}\n" }.join
      end

      private

      def table
        rows = places
        lines = [HEAD, *rows.first(MOST)]
        wide = HEAD.each_index.map { |i| lines.map { |line| line[i].size }.max }
        left = rows.size - MOST
        [*lines.map { |line| aligned(line, wide) }, *("... and #{left} more places" if left.positive?)]
      end

      def aligned(line, wide)
        line.each_with_index.map { |cell, i| i < 2 ? cell.rjust(wide[i]) : cell.ljust(wide[i]) }.join("  ").rstrip
      end

      def places
        all = @profile.stacks.group_by { |stack| [stack.state, stack.place, stack.label] }
        all = all.transform_values { |same| same.sum(&:seconds) }.sort_by { |_, seconds| -seconds }
        total = [@profile.total, 0.000001].max
        all.map do |(state, place, label), seconds|
          [format("%.3f", seconds), format("%.1f%%", seconds * 100 / total), state.to_s, cut(place || "(other stacks)"),
           cut(label.to_s)]
        end
      end

      def cut(text) = Log::Text.escape(text)[0, WIDEST]
    end
  end
end
