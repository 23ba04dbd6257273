# frozen_string_literal: true

module Bench
  module Pages
    # A column of a table. more: whether a higher figure is better; nil if neither is.
    Column = Struct.new(:name, :figure, :digits, :more, keyword_init: true) do
      # @param turns [Array<Hash>]
      # @return [Array<Numeric>]
      def values(turns) = turns.map { |turn| turn.fetch(figure) }

      # @return [String]
      def show(value) = digits.zero? ? value.round.to_s : format("%.#{digits}f", value)

      # @return [String] from the lowest round to the highest
      def range(turns) = values(turns).minmax.map { |value| show(value) }.uniq.join("..")

      # Compares the median with the range of the baseline's rounds.
      # @return [String, nil] worse, better
      def verdict(turns, baseline)
        return if more.nil? || turns.equal?(baseline) || [turns, baseline].any? { |rounds| rounds.size < 2 }

        median = Statistics.median(values(turns))
        low, high = values(baseline).minmax
        return if median.between?(low, high)

        (median > high) == !more ? "worse" : "better"
      end
    end

    def self.column(name, figure, digits = 0, more: false)
      Column.new(name: name, figure: figure, digits: digits, more: more)
    end

    SERVER = [column("switches", :switches, 1), column("PSS MB", :pss, 1), column("not 200", :wrong),
              column("log lines", :lines)].freeze
    PAGES = [column("pages/s", :page_rate, 1, more: true), column("p50 ms", :page_p50), column("p99 ms", :page_p99),
             column("worst", :page_worst), column("least", :page_least, more: true),
             column("most", :page_most, more: nil)].freeze
    LIGHTS = [column("light/s", :light_rate, more: true), column("p50 ms", :light_p50, 1),
              column("p99 ms", :light_p99, 1), column("worst", :light_worst, 1)].freeze

    # Pages on some connections, and light requests on others.
    class Mix
      LIGHTS_MAX = 25 # connections with light requests: 1,250 a second

      # @param milliseconds [Integer] of a page
      # @param connections [Integer]
      # @param mixed [Boolean] whether half of them, 25 at most, ask for something light
      def initialize(milliseconds:, connections:, mixed:)
        @milliseconds = milliseconds
        @lights = mixed ? [connections / 2, LIGHTS_MAX].min : 0
        @pages = connections - @lights
      end

      def name = "#{@milliseconds} ms, #{@pages}#{" and #{@lights}" if @lights.positive?}"

      def title
        pages = "pages of #{@milliseconds} ms on #{@pages} connections"
        return pages if @lights.zero?

        "#{pages}, beside #{@lights} light clients that want #{@lights * 1000 / Load::PACE} requests/s"
      end

      # What kind of request does the work, and for how long.
      def work = ["page", @milliseconds]

      def columns
        cpu = Pages.column("CPU ms", :cpu, 2)
        @lights.zero? ? [cpu, *PAGES, *SERVER] : [cpu, *PAGES, *LIGHTS, *SERVER]
      end

      # @return [Hash{Symbol => Numeric}]
      # @raise [Failed]
      def measure(entry, app:, seconds:, warm:, workers:, prefix:)
        used = nil
        patience = (2 * @pages * @milliseconds / 1000 / workers) + 1
        load = Load.new(port: entry.port, page: app.path_of(*work), light: app.light, prefix: prefix)
        found = load.run(pages: @pages, lights: @lights, seconds: seconds, warm: warm, patience: patience) do
          meter = ServerMeter.new(entry.child).start
          -> { used = meter.stop }
        end
        figures(found, used)
      end

      private

      def figures(found, used)
        answers = found[:page] + found[:light]
        raise Failed, "no request was answered in #{found[:window] / 1_000_000} s" if answers.zero?

        { cpu: used.cpu / 1000.0 / answers, **of_kind(found, :page), **of_kind(found, :light),
          page_least: found[:page_least], page_most: found[:page_most], switches: used.switches.fdiv(answers),
          pss: used.memory.fdiv(1 << 20), wrong: found[:wrong] + found[:lost], lines: used.lines }
      end

      # Requests that are not answered have waited all the time.
      def of_kind(found, kind)
        names = %i[p50 p99 worst].to_h { |name| [name, found[kind].zero? ? :worst : name] }
        times = names.to_h { |name, from| [:"#{kind}_#{name}", found[:"#{kind}_#{from}"] / 1000.0] }
        times.merge("#{kind}_rate": found[kind] * 1e6 / found[:window])
      end
    end

    # Light requests beside a few that compute for long, each once, by clients/steady.c.
    class Hog
      LIGHTS = 25
      COLUMNS = [Pages.column("worst ms", :worst, 1), Pages.column("p99 ms", :p99, 1), Pages.column("p50 ms", :p50, 1),
                 Pages.column("requests", :lights, more: nil), Pages.column("burning ms", :burning),
                 Pages.column("not 200", :wrong), Pages.column("log lines", :lines)].freeze

      # @param burners [Integer] at once
      # @param milliseconds [Integer] that each computes
      def initialize(burners:, milliseconds:)
        @burners = burners
        @milliseconds = milliseconds
      end

      def name = "hog#{@burners}"
      def title = "#{LIGHTS} light clients beside #{@burners} that compute #{@milliseconds} ms"
      def work = ["burn", @milliseconds]
      def columns = COLUMNS

      # @return [Hash{Symbol => Numeric}]
      # @raise [Failed]
      def measure(entry, app:, prefix:, **)
        meter = ServerMeter.new(entry.child).start
        limit = 10 + (@burners * @milliseconds * 4 / 1000)
        found = Client.figures("steady", "port=#{entry.port}", "connections=#{LIGHTS}", "path=#{app.light}",
                               "think=#{Load::PACE}", "burners=#{@burners}", "seconds=#{limit}",
                               "burn=#{app.path_of(*work)}", limit: limit + 10, prefix: prefix)
        lines = meter.stop.lines
        raise Failed, "#{found[:burned]} of #{@burners} burners were answered" unless found[:burned] == @burners

        figures(found, lines)
      end

      private

      # Light requests that are not answered have waited all the time.
      def figures(found, lines)
        names = { worst: :light_worst, p99: :light_p99, p50: :light_p50, burning: :burning }
        names.transform_values! { :burning } if found[:light].zero?
        { **names.transform_values { |name| found[name] / 1000.0 },
          lights: found[:light], wrong: found.values_at(:wrong, :lost, :unanswered).sum, lines: lines }
      end
    end
  end
end
