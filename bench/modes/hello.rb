# frozen_string_literal: true

module Bench
  module Modes
    # wrk on an app, and the server's CPU time for each request.
    class Steady < Row
      Turn = Struct.new(:per_second, :p50, :p99, :cpu, keyword_init: true)

      private

      def headers = []
      def seconds = @quick ? 1 : 3

      def compared_figures = %i[cpu]

      def columns = ["CPU µs", "requests/s", "p50 ms", "p99 ms"]

      def cells(turns)
        [median(turns, :cpu).round(1), median(turns, :per_second).round, milliseconds(median(turns, :p50)),
         milliseconds(median(turns, :p99))]
      end

      def measure(entry)
        wrk = Wrk.new(cpu: @pinned ? 1 : nil)
        load = { port: entry.port, connections: connections, headers: headers, path: path }
        wrk.run(**load, seconds: 1) # warm-up
        meter = CpuMeter.new(entry.child.pid).start
        found = wrk.run(**load, seconds: seconds)
        used = meter.stop
        Turn.new(per_second: found.per_second, p50: found.p50, p99: found.p99,
                 cpu: used.nanoseconds / 1000.0 / found.requests)
      end

      # The server on threads, with a fixed number of them.
      def abaca_threads(number)
        ["abaca", { settings: { mode: :thread, threads: [number, number] } }, "abaca thread #{number}"]
      end
    end

    # Fibers x threads on hello world, 4 connections.
    class Hello < Steady
      THREADS = [1, 5, 16, 64].freeze

      # @param closing [Boolean] a connection for each request
      def initialize(closing:, **options)
        @closing = closing
        super(**options)
      end

      def name = @closing ? "close" : "hello"
      def title = "Hello world on 4 connections#{", Connection: close" if @closing}"

      private

      def connections = 4
      def path = "/hello"
      def headers = @closing ? ["Connection: close"] : []

      def settings
        [["abaca", {}, "abaca fiber"], ["abaca", { settings: { mode: :hybrid } }, "abaca hybrid"],
         *THREADS.map { |number| abaca_threads(number) },
         *THREADS.map { |number| ["puma", { threads: number }] }, ["falcon", {}], ["iodine", {}], ["itsi", {}],
         ["itsi", { fibers: true }]]
      end
    end

    # `sleep 0.1` on many threads, with two connections for each of them.
    class Waiting < Steady
      # @param threads [Integer]
      def initialize(threads:, **options)
        @threads = threads
        super(**options)
      end

      def name = "wait#{@threads}"

      def title
        "sleep 0.1 on #{@threads} threads, #{connections} connections (#{@threads * 10} requests/s are all that go)"
      end

      private

      def connections = @threads * 2
      def path = "/1"
      def env = { "WAIT" => "0.1" }

      def settings
        [abaca_threads(@threads), ["puma", { threads: @threads }], ["itsi", { threads: @threads }],
         ["abaca", {}, "abaca fiber (not bound by threads)"], ["falcon", {}, "falcon (not bound by threads)"]]
      end
    end
  end
end
