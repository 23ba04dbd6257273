# frozen_string_literal: true

module Bench
  module Reporting
    # Fibers, threads and both, beside computing requests, in crowds and at the end.
    class ModesReader < Reader
      # Of a row: its title, unit, figure and the columns of the table, `sums` over all rounds among them. What is
      # `counted` is such a sum itself.
      Kind = Struct.new(:title, :unit, :figure, :more, :sums, :counted, keyword_init: true)
      MS = 0.001
      CONNECTIONS = lambda do |count|
        Kind.new(title: "#{count} connections that ask again at once: tail", unit: "ms at p99",
                 figure: ->(turn) { turn["p99"] * MS },
                 more: { "p50 ms" => ->(turn) { turn["p50"] * MS }, "worst ms" => ->(turn) { turn["worst"] * MS },
                         "requests/s" => ->(turn) { turn["requests"] * 1e6 / turn["microseconds"] } })
      end
      HOGS = lambda do |hogs|
        Kind.new(title: "The slowest light request beside #{hogs}", unit: "ms at worst",
                 figure: ->(turn) { turn["worst"] * MS },
                 more: { "p50 ms" => ->(turn) { turn["p50"] * MS }, "p99 ms" => ->(turn) { turn["p99"] * MS } })
      end
      CPU = lambda do |title|
        Kind.new(title: title, unit: "µs of CPU per request", figure: ->(turn) { turn["cpu"] },
                 more: { "requests/s" => ->(turn) { turn["per_second"] }, "p99 ms" => ->(turn) { turn["p99"] * MS } })
      end
      KINDS = {
        "hog1" => HOGS["a request that computes for 2 s"], "hog8" => HOGS["eight requests that compute for 2 s each"],
        "c4" => CONNECTIONS[4], "c64" => CONNECTIONS[64], "c256" => CONNECTIONS[256],
        "crowd" => Kind.new(title: "10,000 requests at once that wait a second", unit: "ms until the last answer",
                            figure: ->(turn) { turn["wall"] * MS },
                            more: { "peak MB" => ->(turn) { turn["peak"] / 1e6 } }, sums: NOT_RIGHT),
        "excess" => Kind.new(title: "1,000 requests, room for 200: the slowest refusal", unit: "ms",
                             figure: ->(turn) { turn["refused_slowest"] * MS },
                             more: { "refused" => ->(turn) { turn["refused"] } }),
        "hello" => CPU["Hello world on 4 connections"], "close" => CPU["Hello world, a connection per request"],
        "wait64" => CPU["sleep 0.1 on twice as many connections as 64 threads"],
        "wait256" => CPU["sleep 0.1 on twice as many connections as 256 threads"],
        "leave" => Kind.new(title: "100 clients leave: when the last request has ended", unit: "ms",
                            figure: ->(turn) { turn["latest"]&.*(1000) }, more: {}),
        "term" => Kind.new(title: "TERM under 200 connections: requests without an answer",
                           unit: "requests in all tries", counted: true,
                           figure: ->(turn) { turn["lost"] + turn["unanswered"] },
                           more: { "answered" => ->(turn) { turn["answered"] } })
      }.freeze

      def charts = rows.filter_map { |row| of(row) if KINDS.key?(row["row"]) }

      private

      def of(row)
        kind = KINDS.fetch(row["row"])
        turns = row.fetch("turns")
        turns = turns.transform_values { |rounds| total(rounds) } if kind.counted
        chart(key: row["row"], title: kind.title, unit: kind.unit, absent: row["absent"] || row["failures"],
              bars: bars(turns, more: kind.more, sums: kind.sums.to_h, &kind.figure), part: row["ruby"],
              exact: kind.counted)
      end
    end
  end
end
