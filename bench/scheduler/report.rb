# frozen_string_literal: true

module Bench
  # The tables of one SchedulerContest, and its data for the results file.
  class SchedulerReport
    OURS = "abaca"
    YARDSTICK = "async"

    def initialize(contest:, targets:, rows:)
      @contest = contest
      @targets = targets
      @rows = rows
    end

    def run = @contest.run

    # @return [String]
    def render
      [heading("median") { |target, row| median(target, row) },
       heading("best round") { |target, row| @contest.figures(target, row).min },
       summary, failures].compact.join("\n")
    end

    # @return [Hash]
    def to_h
      { ruby: @contest.ruby.description, versions: @contest.versions, absent: @contest.absent,
        geometric_mean_of_async_to: means, rows: @rows.to_h { |row| [row.name, row_data(row)] } }
    end

    private

    def present = @targets.reject { |target| @contest.absent.key?(target.name) }

    def median(target, row) = Statistics.median(@contest.figures(target, row))

    def heading(kind)
      table = Table.new(["", *present.map(&:name), "best peer", "#{OURS}/best"])
      @rows.each do |row|
        cells = present.map { |target| yield target, row }
        table.add(row.title, *cells.map { |cell| rounded(cell) }, *against_best(row, cells))
      end
      @contest.absent.each { |name, reason| table.note(name, reason) }
      "Ruby #{@contest.ruby.version}: µs for each operation, #{kind}\n\n#{table}"
    end

    # The name of the fastest of the others, and how many times its time ours takes.
    def against_best(row, cells)
      times = present.zip(cells).to_h.compact
      own, = times.keys.partition { |target| target.name == OURS }.first
      peer, = times.except(own).min_by(&:last)
      [peer&.name, own && peer && Ratio.new(@contest.figures(own, row), @contest.figures(peer, row)).cell]
    end

    # How many times faster than async a target is, over the rows that both complete.
    def means
      yardstick = present.find { |target| target.name == YARDSTICK } or return {}
      (present - [yardstick]).to_h { |target| [target.name, mean(target, yardstick)] }
    end

    def mean(target, yardstick)
      ratios = @rows.filter_map do |row|
        own, other = [target, yardstick].map { |one| median(one, row) }
        other / own if own && other
      end
      { rows: ratios.size, ratio: ratios.empty? ? nil : Math.exp(ratios.sum { |ratio| Math.log(ratio) } / ratios.size) }
    end

    def summary
      lines = means.filter_map do |name, mean|
        "#{name}: #{format("%.2f", mean[:ratio])} times as fast as #{YARDSTICK} (#{mean[:rows]} rows)" if mean[:ratio]
      end
      "Geometric mean\n\n#{lines.join("\n")}\n" unless lines.empty?
    end

    def failures
      return if @contest.failures.empty?

      grouped = @contest.failures.group_by { |(name, _), reason| [name, reason] }
      lines = grouped.map do |(name, reason), cells|
        "#{name}, #{cells.map { |(_, row), _| row }.join(" ")}: #{reason}"
      end
      "Without a figure\n\n#{lines.join("\n")}\n"
    end

    def row_data(row)
      present.to_h do |target|
        reason = @contest.failures[[target.name, row.name]]
        next [target.name, { failed: reason }] if reason

        [target.name, { median_us: median(target, row), wall_us: @contest.figures(target, row, :wall),
                        cpu_us: @contest.figures(target, row, :cpu) }]
      end
    end

    def rounded(value) = value && format(value < 10 ? "%.2f" : "%.1f", value)
  end
end
