# frozen_string_literal: true

module Bench
  module Reporting
    # A master and its workers on pipes, five ways.
    class WorkersReader < Reader
      NAMES = { "threads" => "threads", "processes" => "processes", "old_master" => "fibers, old master",
                "fast_master" => "fibers, fast master", "automatic" => "automatic fibers" }.freeze
      OURS = "automatic fibers" # they run on Abaca's scheduler
      ROWS = [[5, 20_000], [10, 10_000], [100, 1_000], [1_000, 100], [10, 100_000]].freeze

      def charts = @data.fetch("contests").flat_map { |contest| contest.fetch("rows").map { |row| of(row, contest) } }

      private

      def of(row, contest)
        workers, requests = row.values_at("workers", "requests")
        share = @data["share"] || 1 # of the requests
        there, failed = row.fetch("kinds").partition { |_, kind| kind["median_seconds"] }
        bars = there.map do |kind, cell|
          name = NAMES.fetch(kind, kind)
          Bar.new(name: name, rounds: cell["rounds"].map { |round| round["seconds"] }, ours: name == OURS,
                  turns: ["#{workers} x #{requests}", kind],
                  more: { "CPU s" => median(cell["rounds"].map { |round| round["cpu"] }),
                          "share" => share })
        end
        chart(key: key(workers, requests, share), unit: "s", bars: bars, part: contest["ruby"],
              title: "#{Numbers.count(workers)} workers, #{Numbers.count(requests)} requests each",
              absent: failed.to_h { |kind, cell| [NAMES.fetch(kind, kind), cell["failed"]] })
      end

      # Named after the whole row.
      def key(workers, requests, share)
        row = ROWS.find { |count, all| count == workers && [all / share, 1].max == requests }
        (row || [workers, requests]).join("x")
      end
    end
  end
end
