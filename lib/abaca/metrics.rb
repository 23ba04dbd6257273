# frozen_string_literal: true

require "zlib"
require_relative "control/answer"
require_relative "metrics/certificates"
require_relative "metrics/counts"
require_relative "metrics/machine"
require_relative "metrics/open_metrics"
require_relative "metrics/pools"
require_relative "metrics/processes"
require_relative "metrics/times"
require_relative "metrics/workers"

module Abaca
  # Figures for Prometheus, in its text format 0.0.4 or in that of OpenMetrics (docs/metrics.md). They are read from the
  # page and from /proc, so no process that serves takes part, and they are there while all of them hang. Counters
  # outlive workers.
  class Metrics
    # Bytes from which compressing is worth it.
    LARGE = 4096
    private_constant :LARGE

    # @param config [Config]
    # @param slots [Launcher::Cluster::Slots, Launcher::OnlySlot] the page
    # @param launcher [Control::Questions, nil] knows the certificates
    # @param pid [Integer] the launcher's process
    def initialize(config, slots, launcher: nil, pid: Process.ppid)
      @page = slots.page
      @tally = Page::Tally.new(@page, config[:metrics_routes])
      workers = Workers.new(slots, clustered: config[:workers].positive?)
      @parts = [Times.new, Counts.new, Pools.new, workers, Processes.new(workers, master: pid), Machine.new,
                Certificates.new(config.binds.any?(&:tls) ? launcher : nil)]
      @lock = Mutex.new
    end

    # @param format [Class] Text or OpenMetrics
    # @return [String]
    def text(format = Text)
      @lock.synchronize do
        found = { **@tally.take, figures: @page.sums }
        text = format.new
        @parts.each { |part| part.write(text, found) }
        text.to_s
      end
    end

    # @param request [Control::Request]
    # @return [Control::Answer] in the format that the client prefers, and compressed if it takes that
    def answer(request)
      format = format_for(request["accept"])
      body = text(format)
      fields = { "Vary" => "Accept, Accept-Encoding" }
      if body.bytesize >= LARGE && gzip?(request["accept-encoding"])
        fields["Content-Encoding"] = "gzip"
        body = Zlib.gzip(body, level: Zlib::BEST_SPEED)
      end
      Control::Answer.new(200, format::TYPE, body, fields)
    end

    private

    # OpenMetrics for those that ask for it, unless they would rather have the other one.
    def format_for(field)
      weights = weights(field)
      open = weights[OpenMetrics::NAME] or return Text
      open.positive? && open >= weights.fetch("text/plain", 0) ? OpenMetrics : Text
    end

    # Of several entries the named one counts.
    def gzip?(field)
      weights = weights(field)
      weights.fetch("gzip") { weights.fetch("*", 0) }.positive?
    end

    # The entries of such a field, and the highest weight of each.
    def weights(field)
      field.to_s.downcase.split(",").each_with_object({}) do |entry, weights|
        name, *parameters = entry.split(";").map(&:strip)
        weight = parameters.filter_map { |one| one[/\Aq=(\d(?:\.\d*)?)\z/, 1] }.first
        weights[name] = [weights.fetch(name, 0), weight ? weight.to_f : 1].max
      end
    end
  end
end
