# frozen_string_literal: true

require "time"

module Bench
  module Reporting
    # One file of bench/results: what a benchmark has measured, when, and on which machine.
    class Run
      MONTHS = %w[January February March April May June July August September October November December].freeze

      # @return [Hash] what the file holds
      attr_reader :data
      # @return [String] its name
      attr_reader :file

      # @param file [String]
      # @param data [Hash] with names as Strings
      def initialize(file:, data:)
        @file = file
        @data = data
      end

      def benchmark = @data.fetch("benchmark")
      def machine = @data.fetch("machine", {})

      # @return [String, nil] another checkout of Abaca that took part
      def against = @data["against"]

      # @return [Account]
      def account = @account ||= Account.new(data["account"])

      # @return [Time]
      def time = Time.parse(machine["time"] || file[/\A\d{4}-\d\d-\d\d/] || "1970-01-01")

      # @return [String] "23 November 2026"
      def date = "#{time.day} #{MONTHS[time.month - 1]} #{time.year}"

      # @param part [String, nil] the description of the Ruby that this part ran on
      # @return [String] "3.1.2"
      def ruby(part = nil) = (part || @data["server_ruby"] || machine["ruby"]).to_s[/ruby (\d+\.\d+\.\d+)/, 1] || "?"

      # @param part [String, nil] as in `ruby`
      # @return [String] what a figure of it stands on
      def facts(part = nil)
        place = [machine["cpu"], machine["cpus"] && "#{machine["cpus"]} CPUs", machine["kernel"]&.[](/\A\w+ [\d.]+/)]
        settings = [rounds, ("pinned" if @data["pinned"]), ("commit #{machine["commit"]}" if machine["commit"]), load,
                    account.to_s]
        [date, *place, "Ruby #{ruby(part)}", *settings].compact.join(", ")
      end

      private

      def rounds
        count = @data["rounds"] or return
        seconds = @data["seconds"]
        "#{count} round#{"s" unless count == 1}#{" of #{Numbers.short(seconds)} s" if seconds}"
      end

      def load = machine["load_average"] && "load #{machine["load_average"].split.first}"
    end
  end
end
