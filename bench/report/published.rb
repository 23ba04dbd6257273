# frozen_string_literal: true

require "yaml"

module Bench
  module Reporting
    # What the four sources of this project have published, each figure beside ours. The machines differ: only what two
    # figures of the same column are to each other can be compared.
    class Published
      FILE = File.join(__dir__, "published.yml")
      Source = Struct.new(:name, :title, :where, :about, :rows, keyword_init: true)
      # `ours` is a figure, or why there is none; `measured` whether it is one.
      Row = Struct.new(:what, :theirs, :ours, :measured, keyword_init: true)

      # @param results [ResultsFolder]
      # @param file [String]
      def initialize(results, file: FILE)
        @results = results
        @file = file
      end

      # @return [Array<Source>]
      def sources
        YAML.safe_load_file(@file).map do |source|
          rows = source.fetch("rows").map { |row| of(row) }
          Source.new(rows: rows, **source.except("rows").transform_keys(&:to_sym))
        end
      end

      UNIT = %r{\b(?:ms|MB/s|requests/s|objects)} # in the name of a column
      private_constant :UNIT

      private

      # A run may send a part of the requests only.
      def share(count) = count > 1 ? " for 1/#{count} of the requests" : ""

      def of(row)
        figure = row["chart"] && figure(row)
        Row.new(what: row.fetch("what"), theirs: row.fetch("theirs"), ours: figure || reason(row),
                measured: !figure.nil?)
      end

      def reason(row)
        return row["why"] if row["why"]

        chart = @results.find(row["chart"])
        chart ? "#{row["over"] || row["bar"]} is not in that run" : "no result here: bin/bench #{row["chart"][/\A\w+/]}"
      end

      def figure(row)
        chart = @results.find(row["chart"]) or return
        bar, over = row.values_at("bar", "over").map { |name| chart.bars.find { |one| one.name == name } }
        return if bar.nil? || (row["over"] && over.nil?)

        case row["as"]
        when nil then chart.shown(bar.value)
        when "rate" then "#{short(per_second(chart, bar))}/s"
        when "ratio" then ratio(chart, bar, over)
        when "share" then "#{chart.shown(bar.value)}#{share(bar.more.fetch("share"))}"
        else bar.more[row["as"]] && "#{Numbers.short(bar.more[row["as"]])} #{row["as"][UNIT]}"
        end
      end

      # Of throughput where there is one. Where time is given, less of it is better, and the first of the two is the
      # faster one.
      def ratio(chart, bar, over)
        rates = [bar, over].map { |one| one.by("requests/s") }
        found = rates.all? ? Ratio.new(*rates) : Ratio.new(bar, over, exact: chart.exact?)
        found.stated? ? "#{Numbers.ratio(found.value)} x" : "the rounds differ more than these"
      end

      def per_second(chart, bar) = (chart.unit.start_with?("ns") ? 1e9 : 1e6) / bar.value

      def short(rate)
        return "#{Numbers.short(rate / 1e6)}M" if rate >= 1e6

        rate >= 10_000 ? "#{Numbers.short(rate / 1e3)}k" : Numbers.short(rate)
      end
    end
  end
end
