# frozen_string_literal: true

module Bench
  module Reporting
    # CPU time per request at each load.
    class ServersReader < Reader
      TITLES = {
        "ka4" => "Keep-alive, 4 connections", "ka64" => "Keep-alive, 64 connections",
        "ka256" => "Keep-alive, 256 connections", "close64" => "A connection per request, 64 at once",
        "browser64" => "A browser's nine fields, 64 connections", "pipe16" => "Pipelines of 16, 16 connections",
        "body16k" => "A body of 16 KB, 64 connections", "body256k" => "A body of 256 KB, 64 connections",
        "h2c1" => "HTTP/2 without TLS, 32 streams", "h2c10" => "HTTP/2 without TLS, 10 x 32 streams",
        "h2c1_256k" => "HTTP/2 without TLS, 256 KB, 32 streams",
        "h2c10_256k" => "HTTP/2 without TLS, 256 KB, 10 x 32 streams", "tls64" => "TLS, 64 connections",
        "h2_1" => "HTTP/2 with TLS, 32 streams", "h2_10" => "HTTP/2 with TLS, 10 x 32 streams",
        "h2_1_256k" => "HTTP/2 with TLS, 256 KB, 32 streams",
        "h2_10_256k" => "HTTP/2 with TLS, 256 KB, 10 x 32 streams",
        "ecdsa" => "Full TLS handshakes, P-256", "rsa" => "Full TLS handshakes, RSA 2048"
      }.freeze
      MORE = { "p50 ms" => "p50_ms", "p99 ms" => "p99_ms", "least disturbed round" => "cpu_us_minimum" }.freeze

      def charts = @data.fetch("loads").map { |load| of(load["name"], load["title"]) }

      private

      def of(load, title)
        present, missing = @data.fetch("servers").partition { |server| server["loads"] }
        absent = missing.to_h { |server| [server["name"], server["absent"].to_s] }
        bars = present.filter_map do |server|
          figures = server["loads"][load] || {}
          absent[server["name"]] = figures["stopped"] if figures["stopped"]
          bar(server["name"], figures) if figures["cpu_us_median"] && !figures["stopped"]
        end
        chart(key: load, title: TITLES.fetch(load, title), unit: unit(load), bars: bars, absent: absent)
      end

      def unit(load) = %w[ecdsa rsa].include?(load) ? "µs of CPU per handshake" : "µs of CPU per request"

      def bar(name, figures)
        rounds = figures["rounds"]
        rate = { "requests/s" => rounds.filter_map { |round| round["per_second"] } }
        Bar.new(name: name, rounds: rounds.map { |round| round["cpu"] },
                more: rate.merge(MORE.transform_values { |field| figures[field] }))
      end
    end
  end
end
