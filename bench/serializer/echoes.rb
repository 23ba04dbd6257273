# frozen_string_literal: true

module Bench
  # A long POST that comes back while it is still being sent, one at a time.
  class Echoes
    APP = File.join(DIR, "apps", "echo.ru")
    WARM_UP = 10 # seconds for a megabyte; a server that answers none of it would take the time of a whole turn
    Turn = Struct.new(:up, :down, :first_ms, :cpu, :before, :peak, keyword_init: true)

    # @param only [Array<String>] names of the catalog
    # @param megabytes [Integer] of the body
    # @param framing [String] of the request: length or chunked
    # @param limit [Integer] seconds for one turn
    def initialize(only:, ruby:, rounds:, megabytes:, framing:, limit:, pinned:) # rubocop:disable Metrics/ParameterLists
      @field = Field.new(only: only, ruby: ruby, name: "echoes", cpu: pinned ? 0 : nil)
      @program = Compiler.program("clients/echo.c")
      @count = rounds
      @megabytes = megabytes
      @framing = framing
      @limit = limit
      @pinned = pinned
    end

    def run
      @field.start(app: APP)
      @field.each { |entry| post(entry, 1, [WARM_UP, @limit].min) }
      @field.rounds(@count) { |entry| measure(entry) }
    ensure
      @field.stop
    end

    # @return [String] a table
    def render
      columns = ["MB/s there", "MB/s back", "first back ms", "CPU s/GB", "÷ abaca", "RSS MB", "peak MB", "growth MB"]
      @field.render(*columns) { |turns| cells(turns) }
    end

    # @return [Hash] for the results file
    def to_h = { megabytes: @megabytes, request: @framing, limit_seconds: @limit, **@field.to_h }

    private

    def measure(entry)
      before = entry.child.resident
      meter = CpuMeter.new(entry.child.pid).start
      times = post(entry, @megabytes, @limit)
      cpu = meter.stop.nanoseconds / 1e9 / (@megabytes / 1024.0)
      Turn.new(up: @megabytes / times[:sent], down: @megabytes / times[:back], first_ms: times[:first] * 1000, cpu: cpu,
               before: before, peak: entry.child.peak_resident)
    end

    # @return [Hash] seconds until all was sent, the first byte was back, and all were
    def post(entry, megabytes, limit)
      command = [@program, entry.port.to_s, (megabytes << 20).to_s, @framing, limit.to_s]
      client = Child.new(command, name: "echoes-client", cpu: @pinned ? 1 : nil)
      status = Bench.account.client { client.wait(seconds: limit + 5) }
      client.stop
      line = File.readlines(client.log).last.to_s.strip
      raise Failed, "the client: #{line}" unless status&.success?

      judge(line)
      line.scan(/(\w+)_us=(\d+)/).to_h { |name, time| [name.to_sym, time.to_i / 1e6] }
    end

    def judge(line)
      problem = line[/problem=(.*)\z/, 1]
      there, back = %w[sent back].map { |way| line[/\b#{way}=(\d+)/, 1].to_i >> 20 }
      raise Failed, "#{problem}: #{there} MB there, #{back} MB back" unless problem.empty?
    end

    # Other users of the machine affect wall time first, so MB/s are those of the best turn.
    def cells(turns)
      up, down = %i[up down].map { |field| turns.map(&field).max }
      first, cpu = %i[first_ms cpu].map { |field| Statistics.median(turns.map(&field)) }
      before = turns.first.before
      peak = turns.map(&:peak).max
      memory = [before, peak, peak - before].map { |bytes| bytes.fdiv(1 << 20).round(1) }
      [up.round, down.round, first.round, cpu.round(2), ratio(turns), *memory]
    end

    def ratio(turns) = Ratio.new(turns.map(&:cpu), @field.turns.fetch("abaca", []).map(&:cpu)).cell
  end
end
