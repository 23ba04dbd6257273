# frozen_string_literal: true

module Bench
  # Answers of 2 KB to many connections, and what the garbage collector had to do for them: the
  # counters that each server's process writes at its end.
  class Gets
    APP = File.join(DIR, "apps", "collected.ru")
    CONNECTIONS = 200
    SIZE = 2048 # bytes of the body
    ASKED = { connections: 4, batches: 500 }.freeze # with the collector stopped
    Round = Struct.new(:per_second, :mean_ms, :p99_ms, :cpu_us, :gc_us, :requests, keyword_init: true)

    # @param only [Array<String>] names of the catalog
    # @param seconds [Integer] of each turn
    def initialize(only:, ruby:, rounds:, seconds:, pinned:)
      @field = Field.new(only: only, ruby: ruby, name: "gets", cpu: pinned ? 0 : nil)
      @wrk = Wrk.new(cpu: pinned ? 1 : nil)
      @count = rounds
      @seconds = seconds
      @malloc = {}
      @collected = {}
    end

    def run
      @field.start(size: SIZE, app: APP, right: ->(port) { Probe.get(port: port)&.body == "x" * SIZE })
      @field.each { |entry| warm_up(entry) }
      @field.rounds(@count) { |entry| measure(entry, @seconds) }
      @field.each { |entry| finish(entry) }
    ensure
      @field.stop
    end

    # @return [String] a table
    def render
      columns = ["requests/s", "mean ms", "p99 ms", "CPU µs", "objects", "malloc bytes", "GC µs", "minor GCs",
                 "major GCs"]
      @field.render(*columns) { |rounds, label| [*cells(rounds), *collected(label)] }
    end

    # @return [Hash] for the results file
    def to_h
      { connections: CONNECTIONS, body_bytes: SIZE, malloc_increase_bytes_per_request: @malloc,
        per_request_at_exit: @collected, **@field.to_h }
    end

    private

    # From its end on the server counts.
    def warm_up(entry)
      measure(entry, 1)
      @malloc[entry.label] = malloc_of(entry.port)
    end

    # malloc_increase_bytes begins again with each collection, so it is read while there are none.
    def malloc_of(port)
      length = Probe.answer_bytes(port: port, body: "x" * SIZE)
      before = control(port, "/gc/off").fetch("malloc_increase_bytes")
      Probe.pipeline(port: port, depth: 1, length: length, **ASKED)
      used = control(port, "/gc").fetch("malloc_increase_bytes") - before
      control(port, "/gc/on")
      (used / ASKED.values.reduce(:*).to_f).round(1)
    end

    def control(port, path)
      answer = Probe.get(port: port, path: path) or raise Failed, "no answer to #{path}"
      JSON.parse(answer.body)
    end

    def measure(entry, seconds)
      before = collecting(entry)
      meter = CpuMeter.new(entry.child.pid).start
      figures = @wrk.run(port: entry.port, connections: CONNECTIONS, seconds: seconds)
      used = meter.stop
      gc = collecting(entry) - before
      Round.new(per_second: figures.per_second, mean_ms: figures.mean / 1000.0, p99_ms: figures.p99 / 1000.0,
                cpu_us: used.nanoseconds / 1000.0 / figures.requests, gc_us: gc * 1000.0 / figures.requests,
                requests: figures.requests)
    end

    # In milliseconds, so far.
    def collecting(entry) = control(entry.port, "/gc").fetch("time")

    # Stops the server and reads its last report. If it has forked, one of its processes has done the work; for one
    # that ends without at_exit, the report before counts.
    def finish(entry)
      requests = @field.turns[entry.label].sum(&:requests)
      counters = control(entry.port, "/gc").except("malloc_increase_bytes") if requests.positive?
      entry.child.stop
      return unless counters

      last = File.read(entry.child.log).scan(/^COUNTERS (\{.*\})$/).map { |(line)| JSON.parse(line) }
      counters = [counters, *last].max_by { |line| line["total_allocated_objects"] }
      @collected[entry.label] = counters.transform_values { |value| value.fdiv(requests) }
    end

    def cells(rounds)
      middle = %i[per_second mean_ms p99_ms cpu_us].map { |field| Statistics.median(rounds.map(&field)) }
      [middle.first.round, *middle.drop(1).map { |value| value.round(2) }]
    end

    # The counters of a request; of the rarest ones in a million.
    def collected(label)
      counters = @collected[label] or return [nil, @malloc[label], nil, nil, nil]
      [counters["total_allocated_objects"].round(2), @malloc[label], (counters["time"] * 1000).round(3),
       *%w[minor_gc_count major_gc_count].map { |name| "#{(counters[name] * 1e6).round(1)}/M" }]
    end
  end
end
