# frozen_string_literal: true

module Abaca
  class Metrics
    # What all processes that serve, and those that have ended, have counted, and what there is now.
    class Counts
      def initialize
        @methods = ["GET"] # of requests that were seen in flight: they stay, at 0
      end

      # @param text [Text]
      # @param found [Hash{Symbol => Object}] `figures` of Page#sums, `totals` of Page::Tally#take
      def write(text, found)
        figures = found[:figures]
        active(text, figures, found[:methods])
        requests(text, figures)
        refusals(text, figures, found[:faults])
        connections(text, figures)
        tls(text, figures) if figures.values_at(:tls_handshakes, :tls_failed, :tls_connections).any?(&:positive?)
        process(text, found[:totals])
        text.info("abaca_build_info", "The server's version, as a label.",
                  { version: VERSION, ruby: RUBY_VERSION })
      end

      private

      # Those that the page has no row for have no method.
      def active(text, figures, methods)
        @methods |= methods.keys
        samples = @methods.to_h { |name| [{ http_request_method: name }, methods.fetch(name, 0)] }
        rest = figures[:in_app] + figures[:waiting] - methods.values.sum
        samples[{}] = rest if rest.positive?
        text.gauge("http_server_active_requests", "Requests in the app, and those that wait for it.", samples)
      end

      def requests(text, figures)
        text.gauge("abaca_active_requests", "The same, by where they are; held: they wait for a pool of the app.",
                   { { state: "app" } => figures[:in_app], { state: "held" } => figures[:held],
                     { state: "queue" } => [figures[:waiting] - figures[:held], 0].max })
        text.gauge("abaca_bodies", "Requests whose bodies are still coming.", figures[:gathering])
        text.gauge("abaca_body_bytes", "Bytes of bodies that are buffered.", figures[:gathered])
        text.counter("abaca_requests_total", "Requests handed to the app.", figures[:requests])
        text.counter("abaca_requests_queued_total", "Requests that had to wait for the app.", figures[:queued])
        text.counter("abaca_probes_total", "Health checks that the server has answered.", figures[:probes])
      end

      def refusals(text, figures, faults)
        text.counter("abaca_rejected_total", "Requests answered 503 without the app.",
                     figures[:rejected].to_h { |reason, count| [{ reason: }, count] })
        text.counter("abaca_errors_total", "Requests that the server itself answered with 4xx or 5xx, by status; " \
                                           "without one: connections of HTTP/2 that broke its rules.",
                     faults.transform_keys { |status| { status: } })
        text.counter("abaca_timeouts_total", "Connections closed by a deadline; requests whose request_timeout passed.",
                     { { deadline: "connection" } => figures[:timeouts], { deadline: "request" } => figures[:expired] })
        text.counter("abaca_cancelled_total", "Requests that were not done; left: the client went while they waited.",
                     { { outcome: "left" } => figures[:left] })
      end

      def connections(text, figures)
        text.gauge("abaca_connections", "Connections, by state; taken_over: by the app.",
                   { { state: "open" } => figures[:connections], { state: "taken_over" } => figures[:taken_over] })
        text.counter("abaca_connections_accepted_total", "Connections accepted.", figures[:accepted])
        text.counter("abaca_connections_refused_total", "Connections lost for want of descriptors or memory.",
                     figures[:refused])
        text.counter("abaca_connections_detached_total", "Connections that the app has taken over.", figures[:detached])
        text.counter("abaca_connections_moved_total", "Connections that went to other workers.", figures[:moved_out])
        text.counter("abaca_received_bytes_total", "Bytes received from clients.", figures[:received])
        text.counter("abaca_sent_bytes_total", "Bytes sent to clients.", figures[:sent])
      end

      def tls(text, figures)
        done, resumed = figures.values_at(:tls_handshakes, :tls_resumed)
        text.counter("abaca_tls_handshakes_total", "TLS handshakes, by how they ended.",
                     { { result: "full" } => [done - resumed, 0].max, { result: "resumed" } => resumed,
                       { result: "failed" } => figures[:tls_failed] })
        waiting, all = figures.values_at(:tls_waiting, :tls_connections)
        text.gauge("abaca_tls_connections", "TLS connections, by state.",
                   { { state: "handshake" } => waiting, { state: "open" } => [all - waiting, 0].max })
      end

      def process(text, totals)
        text.counter("abaca_stalls_total", "Times that a request kept its loop for too long.", totals[:stalls])
        text.counter("abaca_stall_seconds_total", "Time of these stalls.", totals[:stall_time])
        text.counter("abaca_gc_seconds_total", "Time of garbage collections.", totals[:gc_time])
        text.counter("abaca_gc_collections_total", "Garbage collections, by kind.",
                     { { kind: "minor" } => totals[:gc_minor], { kind: "major" } => totals[:gc_major] })
        { rows_missed: "Requests that the page had no row for.",
          routes_dropped: "Requests whose route is one too many: their route is _OTHER.",
          series_dropped: "Times without a series of their own: method and route are _OTHER." }.each do |key, help|
          text.counter("abaca_#{key}_total", help, totals[key])
        end
      end
    end
  end
end
