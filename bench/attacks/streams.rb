# frozen_string_literal: true

require_relative "../servers/field"

module Bench
  # What honest clients notice of responses without end beside them, which are read as fast as they come: alone, while
  # the streams begin, and when all have begun.
  class Streams
    APP = File.join(DIR, "apps", "endless.ru")
    MODES = { "fiber" => { max_fibers: 4000 }, "thread" => { mode: :thread, threads: [0, 2000] } }.freeze
    STREAMS = 1500
    HONEST = 50
    RATE = 10 # requests a second of each
    Turn = Struct.new(:alone_p50, :alone_p99, :begin_p50, :begin_p99, :begin_worst, :beside_p50, :beside_p99, :worst,
                      :answered, :failed, :all_begun, :bytes, :least, :most, keyword_init: true)

    def initialize(rounds:, seconds:)
      Files.raise_limit
      Compiler.program("clients/readers.c")
      @field = Field.new(settings: MODES.map { |mode, settings| ["abaca", { settings: settings }, "abaca #{mode}"] },
                         name: "streams", cpu: 0)
      @rounds = rounds
      @seconds = seconds
      @honest = H2load.new(cpu: 1)
    end

    # @return [String]
    def title = "#{STREAMS} responses without end"

    def run
      @field.rounds(@rounds, title) { |entry| @field.alone(entry, app: APP) { measure(entry.port) } }
    end

    # @return [String] a table
    def render
      @field.render("p50/p99 ms alone", "while they begin", "worst", "beside", "worst", "answered", "failed",
                    "all begun s", "MB/s", "least/most MB") do |turns|
        cells(turns)
      end
    end

    # @return [Hash] for the results file
    def to_h = { streams: STREAMS, honest: HONEST, rate: RATE, seconds: @seconds, **@field.to_h }

    private

    def measure(port)
      ask(port, 2) # the heap grows now, not later
      alone, = ask(port, @seconds)
      reading = Thread.new { read(port) }
      reading.report_on_exception = false
      begins, lost = ask(port, @seconds)
      beside, failed = ask(port, @seconds)
      figures = { **shares(:alone, alone), **shares(:begin, begins), **shares(:beside, beside) }
      Turn.new(**figures, begin_worst: begins.max, worst: beside.max, answered: begins.size + beside.size,
                          failed: lost + failed, **reading.value.slice(:all_begun, :bytes, :least, :most))
    end

    def shares(name, times)
      [50, 99].to_h { |percent| [:"#{name}_p#{percent}", Statistics.percentile(times, percent)] }
    end

    def ask(port, seconds)
      @honest.paced(port: port, connections: HONEST, rate: RATE, seconds: seconds, http1: true)
    end

    # What they compute themselves shall not delay the honest clients.
    def read(port)
      seconds = (2 * @seconds) + 1
      Client.figures("readers", port.to_s, STREAMS.to_s, seconds.to_s, limit: seconds + Wrk::GRACE,
                                                                       prefix: %w[nice -n 5 taskset -c 1])
    end

    def cells(turns)
      pairs = %w[alone begin beside].map do |name|
        %w[p50 p99].map { |share| milliseconds(turns.map(&:"#{name}_#{share}")) }.join("/")
      end
      [pairs[0], pairs[1], worst(turns, :begin_worst), pairs[2], worst(turns, :worst), turns.sum(&:answered),
       turns.sum(&:failed), begun(turns), (Statistics.median(turns.map(&:bytes)) / 1e6 / ((2 * @seconds) + 1)).round,
       %i[least most].map { |name| (Statistics.median(turns.map(&name)) / 1e6).round(1) }.join("/")]
    end

    def milliseconds(times) = (Statistics.median(times) / 1000.0).round(1)
    def worst(turns, name) = (turns.map(&name).max / 1000.0).round(1)

    # Seconds; nil: some stream never began.
    def begun(turns)
      times = turns.map(&:all_begun)
      (Statistics.median(times) / 1000.0).round(1) unless times.min.negative?
    end
  end
end
