# frozen_string_literal: true

module Bench
  module Reporting
    # What waiting and waking cost on each scheduler.
    class SchedulerReader < Reader
      TITLES = {
        "spawn" => "100,000 tasks that do nothing", "spawn_sleep0" => "100,000 tasks with sleep(0), 10,000 alive",
        "pipe" => "Pipe round trip, 50 pairs", "tcp" => "TCP echo round trip, 50 connections",
        "socketpair" => "Socketpair round trip, 50 pairs", "queue" => "Queue round trip between two tasks",
        "mutex" => "Mutex hand-over with sleep(0), 100 x 100", "sleeps" => "10,000 x sleep 0.1 at once",
        "cross_thread" => "Queue round trip with a plain thread", "timeout" => "Timeout.timeout(5) { q.pop }",
        "http" => "Net::HTTP.get, 50 clients", "http_keep" => "Net::HTTP kept alive, 50 clients",
        "fan_out" => "Fan out to 10 sleeping tasks and gather", "timeouts" => "Cascading timeouts, 3 deep"
      }.freeze
      CPU = %w[sleeps fan_out timeouts].freeze # wall time is that of the sleeps

      def charts = @data.fetch("contests").flat_map { |contest| of(contest) }

      private

      def of(contest)
        contest.fetch("rows").map do |name, targets|
          cpu = CPU.include?(name)
          there, failed = targets.partition { |_, cell| cell["median_us"] }
          bars = there.map { |label, cell| Bar.new(name: label, rounds: cell[cpu ? "cpu_us" : "wall_us"]) }
          reasons = failed.to_h { |label, cell| [label, cell["failed"] || "did not end, or did the wrong thing"] }
          chart(key: name, title: TITLES.fetch(name, name), unit: "µs#{" of CPU" if cpu} per operation", bars: bars,
                absent: contest["absent"].to_h.merge(reasons), part: contest["ruby"])
        end
      end
    end
  end
end
