# frozen_string_literal: true

# A gateway to a language model: streams of events, handed on from an upstream as they come. See README.md.
# Usage: ruby bench/relay.rb --help

require_relative "support/bench"
require_relative "servers/field"
require_relative "servers/gateway"
require_relative "servers/upstream"

module Bench
  # Clients that each read one stream through the server, in interleaved rounds; every event is looked at.
  class Relay
    # A server with threads has one for each stream, so there are no more streams than that.
    THREADS = 256
    SETTINGS = [["abaca", {}], ["itsi", { fibers: true }], ["falcon", {}],
                ["puma", { threads: THREADS }, "puma, #{THREADS} threads"], *Gateway::PROGRAMS].freeze
    DIRECT = "(no gateway)"
    Turn = Struct.new(:streams, :complete, :wrong, :events, :p50, :p99, :worst, :gap_p50, :gap_p99, :gap_worst, :cpu,
                      :peak, keyword_init: true)

    def initialize(streams:, events:, pace:, rounds:, pinned:, **options)
      @field = Field.new(settings: SETTINGS, name: "relay", cpu: pinned ? 0 : nil, **options)
      @streams = streams
      @events = events
      @pace = pace
      @rounds = rounds
      @cpu = pinned ? 1 : nil
      @direct = []
    end

    # Each turn has a server of its own, so that none has another's memory.
    def run
      @upstream = Upstream.stream(events: @events, pace: @pace, cpu: @cpu)
      @direct << Bench.account.turn("relay", DIRECT) { direct }
      @field.rounds(@rounds) do |entry|
        @field.alone(entry, app: Gateway::APP, env: @upstream, right: Gateway::READY) { measure(entry) }
      end
    end

    # @return [String] a table
    def render
      columns = ["streams", "CPU µs an event", "to abaca's", "p50 ms", "p99 ms", "worst ms", "gap p99 ms", "incomplete",
                 "peak MB"]
      table = @field.render(*columns, "CPU µs": :cpu, "p99 µs": :p99) { |turns| cells(turns) }
      none = @direct.map { |turn| "#{DIRECT}: #{%i[p50 p99 worst].map { |field| ms(turn[field]) }.join("/")} ms" }
      [table, *none].join("\n")
    end

    # @return [Hash] for the results file
    def to_h = { direct: @direct.map(&:to_h), **@field.to_h }

    private

    def cells(turns)
      p50, p99, worst, gap, cpu = %i[p50 p99 worst gap_p99 cpu].map { |field| Statistics.median(turns.map(&field)) }
      ours = @field.turns.fetch("abaca", []).map(&:cpu)
      [turns.map(&:streams).max, cpu.round(1), Ratio.new(turns.map(&:cpu), ours).cell,
       *[p50, p99, worst, gap].map { |us| ms(us) }, turns.sum { |turn| turn.streams - turn.complete },
       turns.map(&:peak).max.fdiv(1 << 20).round]
    end

    def ms(microseconds) = (microseconds / 1000.0).round(2)

    def direct = Turn.new(**ask(Integer(@upstream.fetch("UPSTREAM")), @streams))

    def measure(entry)
      streams = entry.options.key?(:threads) ? [@streams, THREADS - 6].min : @streams
      meter = CpuMeter.new(entry.child.pid).start
      found = ask(entry.port, streams)
      used = meter.stop
      raise Failed, "#{found[:wrong]} of #{streams} streams were not right" if found[:wrong].positive?

      cut = streams - found[:complete]
      raise Failed, "#{cut} of #{streams} streams did not end" if cut > streams * Wrk::ERRORS_MAX

      Turn.new(**found, cpu: used.nanoseconds / 1e3 / found[:events], peak: entry.child.peak_resident)
    end

    def ask(port, streams) = Gateway.ask(port, streams: streams, events: @events, pace: @pace, cpu: @cpu)
  end
end

Bench.main("relay") do |main|
  main.quick("one round of 100 streams of 20 events", rounds: 1, streams: 100, events: 20, pace: 50)
  main.option(:streams, 1000, "streams at once")
  main.option(:events, 60, "events of a stream")
  main.option(:pace, 100, "milliseconds between two of them")
  main.option(:rounds, 3, "interleaved rounds")
  main.option(:only, nil, "only these servers")
  main.ruby
  main.against
  main.unpinned
  main.measure do |options|
    title = "%<streams>d streams of %<events>d events, one every %<pace>d ms, from an upstream"
    main.show(Bench::Relay.new(**options), format(title, options))
  end
end
