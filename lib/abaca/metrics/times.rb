# frozen_string_literal: true

module Abaca
  class Metrics
    # How long requests took, what they did meanwhile, and other times that are counted in series.
    class Times
      # Series by kind: family, help, and the label that tells kinds apart.
      KINDS = {
        queue: ["abaca_queue_seconds", { source: "server" }],
        proxy: ["abaca_queue_seconds", { source: "proxy" }],
        loop_lag: ["abaca_loop_lag_seconds", { loop: "main" }],
        loop_lag_spare: ["abaca_loop_lag_seconds", { loop: "spare" }],
        gvl_loop: ["abaca_gvl_wait_seconds", { thread: "loop" }],
        gvl_spare: ["abaca_gvl_wait_seconds", { thread: "spare" }],
        gvl_thread: ["abaca_gvl_wait_seconds", { thread: "pool" }],
        gvl_offload: ["abaca_gvl_wait_seconds", { thread: "offload" }],
        gc: ["abaca_gc_pause_seconds", {}],
        stall: ["abaca_stall_duration_seconds", {}],
        **%i[db cache http io pool lock dns].to_h { |kind| [kind, ["abaca_wait_seconds", { state: kind }]] }
      }.freeze
      HELP = {
        "abaca_queue_seconds" => "Times that requests waited to be taken: in the server, and since a proxy got them.",
        "abaca_loop_lag_seconds" => "Times between two turns of a loop.",
        "abaca_gvl_wait_seconds" => "Waits for Ruby's lock, by what waited.",
        "abaca_wait_seconds" => "Single waits of requests, by what they waited for.",
        "abaca_gc_pause_seconds" => "Garbage collections.",
        "abaca_stall_duration_seconds" => "Stalls of loops that are over."
      }.freeze
      private_constant :KINDS, :HELP

      # @param text [Text]
      # @param found [Hash{Symbol => Object}] what Page::Tally#take has found
      def write(text, found)
        requests, others = found[:series].partition { |series| series.first == :request }
        text.histogram("http_server_request_duration_seconds", "Duration of requests that the app has had.",
                       requests.map { |series| request(series) })
        states(text, found)
        families = others.group_by { |kind, *| KINDS.fetch(kind).first }
        HELP.each { |name, help| text.histogram(name, help, families.fetch(name, []).map { |series| other(series) }) }
      end

      private

      def request(series)
        _, method, route, status, *times = series
        [{ http_request_method: method, http_response_status_code: status, http_route: route,
           error_type: (status if status && status >= 500) }, *times]
      end

      def other(series) = [KINDS.fetch(series.first).last, *series.last(3)]

      # Requests without a route have no such label.
      def states(text, found)
        samples = found[:routeless].to_h { |state, seconds| [{ state: }, seconds] }
        found[:routes].each do |route|
          route[:sums].each { |state, seconds| samples[{ state:, route: route[:route] }] = seconds }
        end
        text.counter("abaca_request_state_seconds_total",
                     "Time of requests that have ended, by what they did or waited for.", samples)
      end
    end
  end
end
