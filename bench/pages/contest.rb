# frozen_string_literal: true

module Bench
  module Pages
    # All cells for a number of workers. Each turn has a server of its own, which is asked for one cell after another.
    class Contest < Row
      # As given to --rows => server, options of its command, label
      ROWS = {
        "abaca" => ["abaca", {}, "abaca"],
        "stall0" => ["abaca", { settings: { stall_after: 0 } }, "abaca --stall-after 0"],
        "thread" => ["abaca", { settings: { mode: :thread } }, "abaca --mode thread"],
        "puma3" => ["puma", { threads: 3 }, "puma, 3 threads"],
        "puma5" => ["puma", { threads: 5 }, "puma, 5 threads"],
        "falcon" => ["falcon", {}, "falcon"]
      }.freeze

      # @param app [App]
      # @param workers [Integer]
      # @param cells [Array<Mix, Hog>]
      # @param rows [Array<String>] of ROWS
      # @param options [Hash] of Row, where `pinned` has one worker on CPU 0 and the client on CPU 1; `seconds` of a
      #   window; `baseline` of ROWS, the row that the others are compared with
      def initialize(app:, workers:, cells:, rows:, **options)
        @app = app
        @workers = workers
        @cells = cells
        @rows = ROWS.values_at(*rows)
        @seconds, baseline, pinned, @against = options.values_at(:seconds, :baseline, :pinned, :against)
        @baseline = ROWS.fetch(baseline).last
        @failures = {} # [label, cell] => reason
        super(quick: false, **options.except(:seconds, :baseline), pinned: pinned && workers == 1)
      end

      def name = "#{@app.name}-#{@workers}"

      # @raise [Unavailable, Failed]
      def run
        @app.prepare
        calibrate
        @field.rounds(@rounds, title) { |entry| alone(entry) { measure(entry) } }
      end

      # @return [String] for each cell a table with medians, and one with the range of the rounds
      def render
        tables = Tables.new(@field.turns, baseline: @baseline, against: @against,
                                          mark: ->(label) { Bench.account.mark(title, label) })
        shown = @cells.map { |cell| "#{cell.title} (#{title})\n\n#{tables.render(cell)}" }
        reasons = [*@failures.map { |key, reason| "#{key.join(", ")}: #{reason}" },
                   *@field.absent.map { |label, reason| "#{label}: #{reason}" }]
        [*shown, *reasons, tables.legend].join("\n")
      end

      # @return [Hash] for the results file
      def to_h
        { **super, workers: @workers, cells: @cells.to_h { |cell| [cell.name, cell.title] },
                   failures: @failures.transform_keys { |key| key.join(", ") } }
      end

      private

      def title = "#{@app.title}, #{@workers} #{@workers == 1 ? "worker" : "workers"}, Ruby #{@ruby.version}"

      def settings
        return @rows if @workers == 1

        @rows.map do |server, options, label|
          number = { workers: @workers }
          more = server == "abaca" ? { settings: options[:settings].to_h.merge(number) } : number
          [server, options.merge(more), label]
        end
      end

      def app = @app.path
      def right?(port) = Probe.get(port: port, path: @app.light)&.status == 200

      def alone(entry, &)
        @field.alone(entry, app: app, env: @app.env(entry.server), prefix: @nice, right: method(:right?), &)
      end

      def calibrate
        missing = @cells.flat_map(&:kinds).uniq - @app.calibrated
        return if missing.empty?

        entry = @field.entries.first or raise Failed, "no server"
        alone(entry) { missing.each { |kind| @app.calibrate(kind, entry) } }
      end

      def measure(entry)
        warm = Load::WARM
        @cells.to_h do |cell|
          figures = try(entry, cell, warm)
          warm = Load::AGAIN if figures
          [cell.name, figures]
        end
      end

      # nil for a cell at which the server fails, now or before: the others count.
      def try(entry, cell, warm)
        key = [entry.label, cell.title]
        return if @failures.key?(key)

        cell.measure(entry, app: @app, seconds: @seconds, warm: warm, workers: @workers, prefix: prefix)
      rescue Failed => e
        raise Failed, "died: #{entry.child.last_words}" unless entry.child.running?

        @failures[key] = e.message
        Bench.account.absent(cell.title, entry.label, e.message)
        nil
      end

      def prefix = [*@nice, *(%w[taskset -c 1] if @pinned)]
    end
  end
end
