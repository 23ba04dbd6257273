# frozen_string_literal: true

module Bench
  module Pages
    # Measures all cells with one number of workers. Each round starts new servers and measures them in turn, cell by
    # cell.
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
      # @param options [Hash] those of Row, and: `seconds`, the length of a window; `baseline`, the key in ROWS of the
      #   row that others are compared with. `pinned` puts a single worker on CPU 0 and the client on CPU 1
      def initialize(app:, workers:, cells:, rows:, **options)
        @app = app
        @workers = workers
        @cells = cells
        @rows = ROWS.values_at(*rows)
        @seconds, baseline, pinned, @against = options.values_at(:seconds, :baseline, :pinned, :against)
        @baseline = ROWS.fetch(baseline).last
        @failures = {} # [label, cell] => reason of the last one
        super(quick: false, **options.except(:seconds, :baseline), pinned: pinned && workers == 1)
      end

      def name = "#{@app.name}-#{@workers}"

      # @raise [Unavailable, Failed]
      def run
        @app.prepare
        @rounds.times { |round| take_round(round) }
        @failures.each do |(label, cell), reason|
          figures = @field.turns.fetch(label, []).filter_map { |turn| turn[cell.name] }
          Bench.account.absent(title_of(cell), label, reason) if figures.empty?
        end
      end

      # @return [String] for each cell a table with medians, and one with the range of the rounds
      def render
        tables = Tables.new(@field.turns, baseline: @baseline, against: @against)
        shown = @cells.map do |cell|
          title = title_of(cell)
          "#{title}\n\n#{tables.render(cell) { |label| Bench.account.mark(title, label) }}"
        end
        reasons = [*failures.map { |place, reason| "#{place}: #{reason}" },
                   *@field.absent.map { |label, reason| "#{label}: #{reason}" }]
        [*shown, *reasons, tables.legend].join("\n")
      end

      # @return [Hash] for the results file
      def to_h
        cells = @cells.to_h { |cell| [cell.name, { title: cell.title, work: @app.work(*cell.work) }] }
        { **super, workers: @workers, seconds: @seconds, cells: cells, failures: failures }
      end

      private

      # Of the last round that failed.
      def failures = @failures.transform_keys { |label, cell| "#{label}, #{cell.title}" }

      def title_of(cell)
        "#{cell.title} (#{@app.title}, #{@workers} #{@workers == 1 ? "worker" : "workers"}, Ruby #{@ruby.version})"
      end

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

      def take_round(round)
        @warm = {}
        @field.each do |entry|
          @field.launch(entry, app: app, env: @app.env(entry), prefix: @nice, right: method(:right?))
        end
        calibrate if round.zero?
        @cells.each do |cell|
          @field.rounds(1, title_of(cell), before: round) { |entry| { cell.name => try(entry, cell) } }
        end
      ensure
        @field.stop
      end

      def calibrate
        entry = @field.entries.first or raise Failed, "no server has started: #{@field.absent}"
        (@cells.map { |cell| cell.work.first }.uniq - @app.calibrated).each { |kind| @app.calibrate(kind, entry) }
      end

      # Returns nil if the server fails in this cell; its other cells and rounds still count.
      def try(entry, cell)
        warm = @warm[entry.label] ? Load::AGAIN : Load::WARM
        cell.measure(entry, app: @app, seconds: @seconds, warm: warm, workers: @workers, prefix: prefix)
            .tap { @warm[entry.label] = true }
      rescue Failed => e
        raise Failed, "died: #{entry.child.last_words}" unless entry.child.running?

        @failures[[entry.label, cell]] = e.message
        nil
      end

      def prefix = [*@nice, *(%w[taskset -c 1] if @pinned)]
    end
  end
end
