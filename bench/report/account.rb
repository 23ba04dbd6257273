# frozen_string_literal: true

module Bench
  module Reporting
    # What a run says of itself: which turns were disturbed by other processes or the hypervisor, and in which rows the
    # client was busy all the time, so that requests per second are its own.
    class Account
      DISTURBED = "~"
      LIMITED = "*" # requests a second are the client's

      # @param data [Hash, nil] as it is in the result; older ones have none
      def initialize(data)
        @rows = data.to_h.fetch("rows", [])
      end

      # @param row [String] of the benchmark
      # @param name [String] who had its turns
      # @return [String] signs to stand beside the name
      def mark(row, name)
        own = @rows.select { |one| one["name"] == name }
        found = own.find { |one| one["row"] == row || one["row"].start_with?("#{row},") } || (own.first if own.one?)
        return "" unless found

        signs = [(DISTURBED if found["disturbed"].to_a.size * 2 > found["turns"].to_i),
                 (LIMITED if found["client_at_its_limit"])].compact
        signs.empty? ? "" : " #{signs.join}"
      end

      # @return [String, nil] how many turns were disturbed
      def to_s
        turns = @rows.sum { |row| row["turns"].to_i }
        return if turns.zero?

        "#{@rows.sum { |row| row["disturbed"].to_a.size }} of #{turns} turns disturbed"
      end
    end
  end
end
