# frozen_string_literal: true

module Bench
  # A table for the terminal: the first column to the left, the others to the right.
  class Table
    # @param columns [Array<String>] headings
    def initialize(columns)
      @columns = columns
      @rows = []
      @notes = []
    end

    # @param cells [Array] as many as there are columns; nil prints as a dash
    def add(*cells)
      @rows << cells.map { |cell| cell.nil? ? "-" : cell.to_s }
    end

    # A row that has a sentence instead of figures.
    def note(name, sentence)
      @notes << [name, sentence]
    end

    # @return [String]
    def to_s
      widths = [@columns, *@rows].transpose.map { |cells| cells.map(&:length).max }
      widths[0] = [widths[0], *@notes.map { |name, _| name.length }].max
      rule = widths.map { |width| "-" * width }
      lines = [@columns, rule, *@rows].map { |cells| line(cells, widths) }
      notes = @notes.map { |name, sentence| "#{name.ljust(widths[0])}  #{sentence}" }
      "#{(lines + notes).join("\n")}\n"
    end

    private

    def line(cells, widths)
      first, *rest = cells.each_with_index.map { |cell, i| i.zero? ? cell.ljust(widths[i]) : cell.rjust(widths[i]) }
      [first, *rest].join("  ").rstrip
    end
  end
end
