# frozen_string_literal: true

require_relative "text"

module Abaca
  class Metrics
    # The same as a text of OpenMetrics 1.0: families of counters and infos have names without the suffix of their
    # samples, bounds are written as floats, buckets have exemplars, and the text says that it is whole.
    class OpenMetrics < Text
      # The format's media type.
      TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
      # What clients call it.
      NAME = "application/openmetrics-text"
      ENDS = [*Page::Tally::BOUNDS.map(&:to_f), "+Inf"].map { |bound| %(le="#{bound}"} ).freeze }.freeze
      SUFFIXES = { "counter" => "_total", "info" => "_info" }.freeze
      private_constant :ENDS, :SUFFIXES

      # @return [String] it is complete
      def to_s = "#{super}# EOF\n"

      def info(name, help, labels) = simple("info", name, help, { labels => 1 })

      private

      def head(type, name, help) = super(type, name.delete_suffix(SUFFIXES.fetch(type, "")), help)

      def ends = ENDS

      # 63 characters of the 128 that an exemplar may have.
      def notes(exemplars)
        exemplars&.map do |trace, span, seconds, at|
          %( # {trace_id="#{trace}",span_id="#{span}"} #{seconds} #{format("%.3f", at)}) if trace
        end
      end
    end
  end
end
