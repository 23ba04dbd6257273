# frozen_string_literal: true

module Bench
  module Reporting
    # The runs of all scenarios by one command: what ran, what did not, and why.
    class Suites
      BENCHMARK = "all"
      Row = Struct.new(:name, :state, :seconds, :turns, :disturbed, :reason, keyword_init: true)

      # @param runs [Array<Run>]
      # @return [Array<Suites>] the newest of each Ruby
      def self.of(runs)
        runs.select { |run| run.benchmark == BENCHMARK }.group_by(&:ruby).values.map { |list| new(list.last) }
      end

      # @return [Run]
      attr_reader :run

      # @param run [Run]
      def initialize(run)
        @run = run
      end

      # @return [Array<Row>]
      def rows
        run.data.fetch("scenarios").map do |one|
          absent = one["absent"].to_h.map { |name, why| "#{name}: #{why}" }
          Row.new(reason: [one["reason"], *absent].compact.join("; "),
                  **%i[name state seconds turns disturbed].to_h { |field| [field, one[field.to_s]] })
        end
      end
    end
  end
end
