# frozen_string_literal: true

require_relative "trend"
require_relative "units"

module Abaca
  class Sight
    # By how much a worker's memory grows, as the page's history tells it: known at the first look.
    module Growth
      # Records that are looked at: an hour, or ten minutes.
      WIDTHS = { tens: 360, seconds: 600 }.freeze
      # Megabytes: the history is that coarse, so a smaller change says nothing.
      LEAST = 4
      private_constant :WIDTHS, :LEAST

      # @param worker [Reading::Worker]
      # @return [Float, nil] bytes in a second; nil: the process is too young, or what it has grown by too small
      def self.of(worker)
        WIDTHS.each do |width, most|
          slope = slope(worker.slot.history(width, most:), worker.started_at) and return slope
        end
        nil
      end

      def self.slope(records, since)
        records = records.select { |record| record[:rss].positive? && (since.nil? || record[:at] > since) }
        return if records.empty? || records.map { |record| record[:rss] }.minmax.reduce(:-).abs < LEAST

        trend = Trend.new
        records.each { |record| trend.add(record[:at].to_f - records[0][:at].to_f, record[:rss] * Units::MB) }
        trend.slope
      end
      private_class_method :slope
    end
  end
end
