# frozen_string_literal: true

module Bench
  module Reporting
    # The figures of Abaca in a report, kept beside the results as a table for machines too, so that the next report can
    # say what has changed. Each line has what the report before had, if that came from another run.
    class Figures
      FILE = "figures.tsv"
      COLUMNS = %i[key ruby unit row value yardstick ratio low high run before before_yardstick before_ratio before_low
                   before_high before_run rounds before_rounds].freeze
      NUMBERS = %i[value ratio low high before before_ratio before_low before_high rounds before_rounds].freeze
      OLD = { before: :value, before_yardstick: :yardstick, before_ratio: :ratio, before_low: :low, before_high: :high,
              before_run: :run, before_rounds: :rounds }.freeze
      NEW = "-" # in place of the run before, for what the report before did not have
      Row = Struct.new(*COLUMNS, keyword_init: true) do
        def id = [key, ruby]
        def new? = before_run == NEW
        def changed? = !before_run.nil? && !new?
      end

      class << self
        # @param charts [Array<Chart>]
        # @param last [Array<Row>] of the last report; those of the same report leave everything as it is
        # @return [Array<Row>]
        def of(charts, last: [])
          rows = charts.select(&:ours).map { |chart| row(chart) }
          known = last.to_h { |row| [row.id, row] }
          same = rows.map { |row| [row.id, row.run] }.sort == last.map { |row| [row.id, row.run] }.sort
          rows.each { |row| same ? keep(row, known.fetch(row.id)) : compare(row, known) }
        end

        # @param text [String] of a file
        # @return [Array<Row>]
        def read(text)
          text.lines(chomp: true).drop(1).map do |line|
            cells = COLUMNS.zip(line.split("\t", -1).map { |cell| cell.empty? ? nil : cell }).to_h
            Row.new(**cells, **cells.slice(*NUMBERS).transform_values { |cell| cell && Float(cell) })
          end
        end

        # @param rows [Array<Row>]
        # @return [String]
        def write(rows)
          lines = rows.map { |row| COLUMNS.map { |column| cell(row[column]) }.join("\t") }
          "#{[COLUMNS.join("\t"), *lines].join("\n")}\n"
        end

        private

        def row(chart)
          other = chart.line("limit") || chart.line("nginx") || chart.peers.first
          ratio = other && chart.ratio(other)
          figures = ratio&.value ? { ratio: ratio.value, low: ratio.low, high: ratio.high, rounds: ratio.rounds } : {}
          Row.new(key: chart.key, ruby: chart.ruby, unit: chart.unit, row: chart.ours.name, value: chart.ours.value,
                  yardstick: other&.name, run: chart.run.file, **figures)
        end

        def keep(row, old) = OLD.each_key { |field| row[field] = old[field] }

        def compare(row, known)
          return row if known.empty?

          old = known[row.id]
          return row.before_run = NEW unless old

          OLD.each { |field, name| row[field] = old[name] } unless old.run == row.run
        end

        def cell(value) = value.is_a?(Numeric) ? format("%.6g", value) : Text.line(value)
      end
    end
  end
end
