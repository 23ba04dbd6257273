# frozen_string_literal: true

require "zlib"
require_relative "control/answer"
require_relative "metrics/certificates"
require_relative "metrics/counts"
require_relative "metrics/machine"
require_relative "metrics/processes"
require_relative "metrics/text"
require_relative "metrics/times"
require_relative "metrics/workers"

module Abaca
  # Figures for Prometheus, in its text format 0.0.4 (docs/metrics.md). They are read from the page and from /proc, so
  # no process that serves takes part, and they are there while all of them hang. Counters outlive workers.
  class Metrics
    # The format's media type.
    TYPE = "text/plain; version=0.0.4; charset=utf-8"
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
      @parts = [Times.new, Counts.new, workers, Processes.new(workers, master: pid), Machine.new,
                Certificates.new(config.binds.any?(&:tls) ? launcher : nil)]
      @lock = Mutex.new
    end

    # @return [String]
    def text
      @lock.synchronize do
        found = { **@tally.take, figures: @page.sums }
        text = Text.new
        @parts.each { |part| part.write(text, found) }
        text.to_s
      end
    end

    # @param request [Control::Request]
    # @return [Control::Answer] compressed if the client takes that
    def answer(request)
      body = text
      fields = { "Vary" => "Accept-Encoding" }
      if body.bytesize >= LARGE && gzip?(request["accept-encoding"])
        fields["Content-Encoding"] = "gzip"
        body = Zlib.gzip(body, level: Zlib::BEST_SPEED)
      end
      Control::Answer.new(200, TYPE, body, fields)
    end

    private

    # Of several entries the named one counts. One with q=0 is refused.
    def gzip?(field)
      weights = field.to_s.downcase.split(",").to_h do |entry|
        name, *parameters = entry.split(";").map(&:strip)
        [name, parameters.none? { |one| one.match?(/\Aq=0(\.0*)?\z/) }]
      end
      weights.fetch("gzip") { weights.fetch("*", false) }
    end
  end
end
