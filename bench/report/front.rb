# frozen_string_literal: true

module Bench
  module Reporting
    # What the README has of the results: a picture and two short tables, between two marks.
    class Front
      PLACE = %r{(?<=^<!-- benchmarks: written by bin/bench report -->\n).*?(?=^<!-- benchmarks end -->$)}m
      LOADS = { "ka64" => "keep-alive, 64 connections", "close64" => "`Connection: close`, 64",
                "pipe16" => "16-deep pipelines", "body16k" => "16 KB body" }.freeze
      TLS_LOADS = { "tls64" => "HTTP/1.1, 64 connections", "h2_10" => "HTTP/2, 10 connections x 32 streams",
                    "h2_10_256k" => "256 KB, the same", "ecdsa" => "full handshake, P-256" }.freeze
      DRAWN = %w[ka64 close64].freeze
      FILES = [%w[nginx body16k], %w[nginx h2_10_256k]].freeze # nginx answers these from a file
      NAMES = { "nginx" => "nginx `return 200`", "abaca" => "**Abaca**", "h2o" => "h2o (file)" }.freeze
      NUMBERS = %w[no one two three four five six seven eight nine ten].freeze

      # @param results [ResultsFolder]
      def initialize(results)
        @results = results
      end

      # @return [Boolean] whether there is a run to show
      def any? = !run("ka64").nil?

      # @return [String] an SVG document
      def picture
        charts = charts("ka64")
        title = "Microseconds of processor time per request, hello world"
        Picture.new(DRAWN.filter_map { |load| charts[load] }, title: title).to_s
      end

      # @param readme [String]
      # @return [String] the same with today's figures
      # @raise [ArgumentError] when it has no place for them
      def place(readme)
        raise ArgumentError, "README.md has no place for benchmarks" unless readme.match?(PLACE)

        readme.sub(PLACE) { "\n#{[*plain, *tls].join("\n\n")}\n\n" }
      end

      private

      # The newest run that has this load, and compares servers, not checkouts.
      def run(load)
        @results.runs.select { |run| run.benchmark == "servers" && !run.against }.select do |run|
          run.data["servers"].any? { |server| server["loads"]&.key?(load) }
        end.last
      end

      # load => chart
      def charts(load) = Readers.charts(run(load)).to_h { |chart| [chart.key.delete_prefix("servers/"), chart] }

      def plain
        ["Microseconds of processor time per request of a \"hello world\", one process each, in one interleaved run " \
         "on #{machine(run("ka64"))} ([all figures](bench/results/report.md), made by `bin/bench servers`). *limit* " \
         "is a small C program that sends the same bytes and does nothing else; Abaca's ratio to it is in brackets.",
         "![The first two columns as bars](docs/benchmarks.svg)",
         table(charts("ka64"), LOADS, run("ka64"), beside: "limit")]
      end

      def tls
        return [] unless run("tls64")

        ["Over TLS 1.3 with AES-128-GCM, in a separate run on #{machine(run("tls64"))}; nginx and h2o answer without " \
         "an app:",
         table(charts("tls64"), TLS_LOADS, run("tls64"), beside: "nginx")]
      end

      def machine(run)
        rounds, seconds, cores = [*run.data.values_at("rounds", "seconds"), run.machine["cpus"]].map { |one| word(one) }
        "#{cores} shared cores of an #{Text.markdown(run.machine["cpu"])}, with Ruby #{run.ruby}, on #{run.date}; " \
          "#{["medians of #{rounds} rounds of #{seconds} seconds", run.account.to_s].compact.join(", ")}"
      end

      def word(count) = count.is_a?(Integer) ? NUMBERS.fetch(count, count.to_s) : Text.markdown(count)

      # A row for each server, with Abaca's ratio to one of them.
      def table(charts, loads, run, beside:)
        loads = loads.select { |load, _| charts[load] }
        first = charts.fetch(loads.keys.first)
        rows = [*first.lines, *first.bars].sort_by(&:value).map do |bar|
          cells = loads.keys.map { |load| cell(charts.fetch(load), load, bar.name, beside) }
          "| #{[title(bar.name, run), *cells].join(" | ")} |"
        end
        ["| | #{loads.values.join(" | ")} |", "|#{"---|" * (loads.size + 1)}", *rows].join("\n")
      end

      def cell(chart, load, name, beside)
        bar = [*chart.lines, *chart.bars].find { |one| one.name == name } or return "–"
        return "**#{Numbers.short(bar.value)}**#{ratio(chart, beside)}" if bar.ours?

        "#{Numbers.short(bar.value)}#{" (file)" if FILES.include?([name, load])}"
      end

      # None that is not stated.
      def ratio(chart, beside)
        other = chart.line(beside) or return
        found = chart.ratio(other)
        " (#{format("%.2f", found.value)} x)" if found.stated?
      end

      # With the version of its gem, or the first number of a program's.
      def title(name, run)
        return NAMES.fetch(name) if NAMES.key?(name)

        version = run.data["servers"].find { |server| server["name"] == name }["version"].to_s.delete_prefix("v")
        "#{Text.markdown(name)} #{version}".strip
      end
    end
  end
end
