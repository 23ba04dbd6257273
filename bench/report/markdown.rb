# frozen_string_literal: true

module Bench
  module Reporting
    # The report as Markdown: a summary with all figures, and the guide in docs/.
    class Markdown
      # @return [Book]
      attr_reader :book

      # @param book [Book]
      def initialize(book)
        @book = book
      end

      # @return [String] each chart as a table
      def summary = Template.render("summary.md.erb", self)

      # @return [String] docs/benchmarks.md
      def guide = Template.render("guide.md.erb", self)

      private

      def safe(text) = Text.markdown(text)

      # @return [String] a row of a table
      def line(*cells) = "| #{cells.map { |cell| safe(cell) }.join(" | ")} |"

      def rule(count) = "|#{["---", *Array.new(count - 1, "--:")].join("|")}|"

      # A chart's table, in which each row has as many cells.
      def table(chart)
        card = Card.new(chart)
        rows = card.rows.map { |row| row + Array.new(card.columns.size - row.size, "") }
        [line(*card.columns), rule(card.columns.size), *rows.map { |row| line(*row) }].join("\n")
      end

      def behind(rows)
        return "Nowhere in these results." if rows.empty?

        lines = rows.map do |row|
          own, other = [row.chart.ours, row.other].map { |bar| row.chart.shown(bar.value) }
          line(row.title, own, "#{row.other.name}: #{other}", row.by)
        end
        ["| what | Abaca | ahead | by |", "|---|--:|--:|--:|", *lines].join("\n")
      end
    end
  end
end
