# frozen_string_literal: true

module Bench
  module Cluster
    # From the start of the command to the first answer of hello world, and the memory of a process that has given it.
    class Boot < Row
      Turn = Struct.new(:boot, :resident, :anonymous, keyword_init: true)

      def title = "Boot to the first answer, hello world"

      private

      def settings
        [["abaca", {}, "abaca"], ["abaca", { settings: { workers: 2 } }, "abaca, 2 workers"],
         ["abaca", { settings: { workers: 2, preload_app!: false } }, "abaca, 2 workers, each loads the app"],
         ["puma", {}, "puma"], ["puma", { workers: 2 }, "puma, 2 workers"]]
      end

      def app = Catalog::APP
      def right?(port) = Probe.get(port: port)&.body == "Hello World\n"
      def columns = ["median ms", "fastest ms", "RSS MB", "anonymous MB"]

      def cells(turns)
        boots = turns.map { |turn| turn.boot * 1000 }
        [Statistics.median(boots).round, boots.min.round, megabytes(turns, :resident), megabytes(turns, :anonymous)]
      end

      def megabytes(turns, field) = (median(turns, field) / 1e6).round(1)

      def measure(entry)
        Turn.new(boot: entry.boot, resident: entry.child.resident, anonymous: entry.child.anonymous)
      end
    end
  end
end
