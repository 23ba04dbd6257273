# frozen_string_literal: true

module Bench
  # Turns the turns of a Contest into tables and into data for a file.
  class Report
    PEER = "nginx" # whose figures the others' are compared with, where there is no floor

    # @param contest [Contest] that has run
    # @param against [Against, nil] the checkout to compare with
    def initialize(contest:, servers:, loads:, against: nil)
      @contest = contest
      @servers = servers
      @loads = loads
      @against = against
    end

    def run = @contest.run

    # @return [String] the tables for the terminal
    def render
      [
        table("CPU time per request in µs, median ± half of the spread (ratio to the limit)") do |name, load|
          cpu_cell(name, load)
        end,
        table("CPU time per request in µs, least disturbed round") do |name, load|
          rounded(least_cpu(name, load))
        end,
        peer_table,
        table("requests/s, median (the client's ceiling is near the limit's figure)") do |name, load|
          rate_cell(name, load)
        end,
        table("latency p50/p99 in ms, medians; pipeline: of a whole batch, one connection alone") do |name, load|
          latency_cell(name, load)
        end,
        failures, @against&.render(all_turns, "CPU µs": :cpu)
      ].compact.join("\n")
    end

    # @return [Hash] for the results file
    def to_h
      {
        loads: @loads.map(&:to_h),
        servers: @servers.map { |server| server_data(server) }
      }
    end

    private

    def table(title)
      table = Table.new(["", *@loads.map(&:title)])
      @servers.each do |server|
        reason = @contest.absent[server.name]
        next table.note(server.name, reason) if reason

        table.add(server.name, *@loads.map { |load| yield server.name, load })
      end
      "#{title}\n\n#{table}"
    end

    def turns(name, load) = @contest.turns.fetch([name, load.name], [])

    # Of all rows that did not fail.
    def all_turns
      @contest.turns.except(*@contest.failures.keys).to_h { |(name, load), turns| ["#{name}, #{load}", turns] }
    end

    # nil when the server failed at this load: figures from before the failure are not shown.
    def median(name, load, field)
      return nil if @contest.failures.key?([name, load.name])

      Statistics.median(turns(name, load).map(&field))
    end

    def least_cpu(name, load)
      return nil if @contest.failures.key?([name, load.name])

      turns(name, load).map(&:cpu).min
    end

    # By the rounds, and only where it is known.
    def ratio(name, load, other = "limit")
      return if [name, other].any? { |one| @contest.failures.key?([one, load.name]) }

      Ratio.new(*[name, other].map { |one| turns(one, load).map(&:cpu) }).value
    end

    def cpu_cell(name, load)
      cpu = median(name, load, :cpu) or return
      spread = Statistics.spread(turns(name, load).map(&:cpu))
      ratio = ratio(name, load)
      [rounded(cpu), *("±#{rounded(spread / 2)}" if spread), *("(#{rounded(ratio)})" if ratio)].join(" ")
    end

    # Marked where the client was at its limit.
    def rate_cell(name, load)
      rate = median(name, load, :per_second)
      "#{rate.round}#{Bench.account.mark(load.name, name).delete(" ")}" if rate
    end

    def peer_table
      return if @contest.absent.key?(PEER) || @servers.none? { |server| server.name == PEER }

      table("CPU time per request, the median as the ratio to #{PEER}'s") { |name, load| peer_cell(name, load) }
    end

    def peer_cell(name, load) = rounded(ratio(name, load, PEER))

    def latency_cell(name, load)
      figures = latencies(name, load)
      figures.map { |figure| rounded(figure) }.join("/") if figures.all?
    end

    # p50 and p99 in ms.
    def latencies(name, load)
      return batch_latencies(name, load) if load.depth > 1

      %i[p50 p99].map { |field| median(name, load, field)&.fdiv(1000) }
    end

    def batch_latencies(name, load)
      batches = @contest.batches.fetch([name, load.name], [])
      [50, 99].map { |percent| Statistics.percentile(batches, percent) }
    end

    def rounded(value)
      value && format(value < 100 ? "%.2f" : "%.0f", value)
    end

    def failures
      return if @contest.failures.empty?

      lines = @contest.failures.map { |(name, load), reason| "#{name}, #{load}: #{reason}" }
      "Stopped:\n\n#{lines.join("\n")}\n"
    end

    def server_data(server)
      name = server.name
      return { name: name, absent: @contest.absent[name] } if @contest.absent.key?(name)

      { name: name, version: server.version, head_bytes: @contest.heads[name],
        command: server.command(port: 0, size: 12).map { |word| word.delete_prefix("#{ROOT}/") },
        loads: @loads.to_h { |load| [load.name, load_data(name, load)] } }
    end

    def load_data(name, load)
      p50, p99 = latencies(name, load)
      {
        cpu_us_median: median(name, load, :cpu), cpu_us_minimum: least_cpu(name, load),
        ratio_to_limit: ratio(name, load), requests_per_second_median: median(name, load, :per_second),
        p50_ms: p50, p99_ms: p99, stopped: @contest.failures[[name, load.name]],
        rounds: turns(name, load).map(&:to_h)
      }.compact
    end
  end
end
