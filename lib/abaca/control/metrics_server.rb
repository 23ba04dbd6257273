# frozen_string_literal: true

require_relative "server"

module Abaca
  class Control
    # What listens at `metrics_port`: it has the metrics and nothing else, and needs no token. On loopback, no web page
    # gets them.
    class MetricsServer < Server
      # @param places [Places]
      # @param metrics [Metrics]
      # @param log [Log]
      def initialize(places, metrics:, log:)
        @metrics = metrics
        super(places, guard: Guard.new(places.address, nil), commands: nil, log:)
      end

      private

      # Nobody has a token here: who does not take the answer gives way, too.
      def dismiss_one = super || oldest(:writes)&.then { |socket| shut(socket, :RDWR) }

      def reply(request, socket)
        refusal = @guard.refusal(request, socket, query: false, open: true)
        return Answer.text(403, refusal) if refusal
        return Answer.text(404, "Only /metrics is here") unless request.path == "/metrics"
        return Answer.text(405, "GET is needed", { "Allow" => "GET, HEAD" }) if request.verb == "POST"

        @metrics.answer(request)
      rescue StandardError => e
        @log.error("metrics: #{e.message} (#{e.class}) at #{e.backtrace&.first}")
        Answer.text(500, "The metrics failed; the log says why")
      end
    end
  end
end
