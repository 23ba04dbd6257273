# frozen_string_literal: true

require_relative "../log/text"

module Abaca
  class Metrics
    # Builds a text of the format 0.0.4. A family without samples is left out.
    #
    #   text.counter("abaca_stalls_total", "Stalls of loops.", 3)
    #   text.gauge("abaca_workers", "Workers, by state.", { { state: "serving" } => 4 })
    class Text
      # The format's media type.
      TYPE = "text/plain; version=0.0.4; charset=utf-8"
      # What stands behind a bucket's other labels.
      ENDS = [*Page::Tally::BOUNDS.map { |bound| bound == bound.to_i ? bound.to_i : bound }, "+Inf"]
             .map { |bound| %(le="#{bound}"} ).freeze }.freeze
      ESCAPES = { "\\" => "\\\\", "\n" => "\\n", "\"" => "\\\"" }.freeze
      private_constant :ENDS, :ESCAPES

      def initialize
        @text = +""
        @escaped = {} # most values come again and again
      end

      # @return [String]
      def to_s = @text

      # @param name [String] in seconds, bytes or none, with `_total` at its end
      # @param help [String]
      # @param samples [Numeric, nil, Hash{Hash => Numeric}] by their labels; those that are nil are left out
      def counter(name, help, samples) = simple("counter", name, help, samples)

      # The same of what there is now.
      def gauge(name, help, samples) = simple("gauge", name, help, samples)

      # What does not change while the server runs.
      #
      # @param name [String] with `_info` at its end
      # @param help [String]
      # @param labels [Hash]
      def info(name, help, labels) = gauge(name, help, { labels => 1 })

      # @param name [String] in seconds
      # @param help [String]
      # @param samples [Array<Array(Hash, Float, Array<Integer>, Array)>] labels, sum, counts up to each bound; nil, or
      #   [trace, span, seconds, Unix time] of a request in each bucket, where one is known
      def histogram(name, help, samples)
        return if samples.empty?

        head("histogram", name, help)
        samples.each { |labels, sum, counts, exemplars| buckets(name, labels(labels), sum, counts, exemplars) }
      end

      private

      def simple(type, name, help, samples)
        samples = { {} => samples } unless samples.is_a?(Hash)
        samples = samples.compact
        return if samples.empty?

        head(type, name, help)
        samples.each do |labels, value|
          labels = labels(labels)
          @text << name << (labels.empty? ? "" : "{#{labels}}") << " " << value.to_s << "\n"
        end
      end

      def head(type, name, help) = @text << "# HELP #{name} #{help}\n# TYPE #{name} #{type}\n"

      def ends = ENDS

      # The format has no place for them.
      def notes(_exemplars) = nil

      def buckets(name, labels, sum, counts, exemplars)
        start = "#{name}_bucket{#{labels}#{',' unless labels.empty?}"
        Page::Tally.buckets(@text, start, ends, counts, notes(exemplars))
        labels = "{#{labels}}" unless labels.empty?
        @text << "#{name}_sum#{labels} #{sum}\n#{name}_count#{labels} #{counts.last}\n"
      end

      def labels(labels)
        labels.each_with_object(+"") do |(name, value), text|
          next if value.nil?

          text << "," unless text.empty?
          text << name.name << "=\"" << (@escaped[value] ||= escape(value)) << "\""
        end
      end

      # Names of routes may be any bytes.
      def escape(value)
        text = Log::Text.visible(Log::Text.utf8(value))
        text.match?(/[\\\n"]/) ? text.gsub(/[\\\n"]/, ESCAPES) : text
      end
    end
  end
end
