# frozen_string_literal: true

require "open3"
require "timeout"

module Bench
  # Runs wrk against a server.
  class Wrk
    # What the client saw: counts, and latencies in microseconds.
    Figures = Struct.new(:requests, :microseconds, :mean, :p50, :p99, :connect, :read, :write, :status, :timeout,
                         keyword_init: true) do
      def per_second = requests * 1_000_000.0 / microseconds
      def errors = connect + read + write + status + timeout
    end

    TLS = { "OPENSSL_CONF" => File.join(DIR, "clients", "tls.cnf") }.freeze
    SCRIPT = File.join(DIR, "clients", "load.lua")
    GRACE = 10 # seconds that wrk may take beyond its time
    ERRORS_MAX = 0.01 # share of failed requests above which a figure would be a lie

    # @return [Integer, nil] the CPU that it is pinned to
    attr_reader :cpu

    # @param cpu [Integer, nil] the CPU to pin to
    def initialize(cpu: nil)
      @cpu = cpu
      @command = [*(cpu && ["taskset", "-c", cpu.to_s]), Tools.find("wrk"), "-t1", "--latency"]
    end

    # @param connections [Integer]
    # @param seconds [Numeric] how long; wrk takes whole seconds
    # @param headers [Array<String>] "Name: value"
    # @param depth [Integer] requests in one write
    # @param place [Hash] `path`; `tls`, whether to use it
    # @return [Figures]
    # @raise [Failed] when wrk does not end or says nothing, or too many requests failed
    def run(port:, connections:, seconds:, headers: [], depth: 1, **place)
      command = [*@command, "-c#{connections}", "-d#{seconds}s", "-s", SCRIPT,
                 *headers.flat_map { |field| ["-H", field] }, url(port, **place), "--", depth.to_s]
      text = Bench.account.client { output_of(command, limit: seconds + GRACE) }
      parse(text).tap { |figures| judge(figures) }
    end

    private

    def url(port, path: "/", tls: false, **) = "http#{"s" if tls}://127.0.0.1:#{port}#{path}"

    def output_of(command, limit:)
      Open3.popen2e(TLS, *command) do |_in, out, thread|
        Timeout.timeout(limit) { out.read }
      rescue Timeout::Error
        Process.kill("KILL", thread.pid)
        raise Failed, "stalled: wrk did not end"
      end
    end

    def judge(figures)
      raise Failed, "stalled: no request was answered" if figures.requests.zero?
      return if figures.errors <= figures.requests * ERRORS_MAX

      kinds = %i[connect read write status timeout].select { |kind| figures[kind].positive? }
      raise Failed, "#{kinds.map { |kind| "#{figures[kind]} #{kind} errors" }.join(", ")} of #{figures.requests}"
    end

    def parse(text)
      line = text[/^FIGURES (.+)$/, 1] or raise Failed, "wrk: #{text.lines.last.to_s.strip}"
      Figures.new(**line.scan(/(\w+)=(\d+)/).to_h { |name, number| [name.to_sym, number.to_i] })
    end
  end
end
