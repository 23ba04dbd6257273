# frozen_string_literal: true

# A master and N workers joined by pipes: threads, processes, hand-written and automatic fibers.
# Usage: ruby bench/workers.rb --help

require_relative "support/bench"

module Bench
  # Every row with every kind of worker, in interleaved rounds, each turn in a process of its own.
  class WorkersContest
    KINDS = {
      "threads" => "threads", "processes" => "processes", "old_master" => "fibers, old master",
      "fast_master" => "fibers, fast master", "automatic" => "automatic fibers"
    }.freeze
    OURS = "automatic" # on Abaca::Scheduler
    ROWS = [[5, 20_000], [10, 10_000], [100, 1_000], [1_000, 100], [10, 100_000]].freeze
    MAIN = File.join(DIR, "workers", "turn.rb")

    # @param share [Integer] the requests of each row are divided by it
    # @param limit [Numeric] seconds for one turn
    def initialize(ruby:, rounds:, share:, limit:, pinned:)
      @ruby = ruby
      @rounds = rounds
      @share = share
      @limit = limit
      @pinned = pinned
      @failures = {}
      @turns = Hash.new { |hash, key| hash[key] = [] }
    end

    def run
      folder = @ruby.abaca
      ROWS.each do |row|
        @rounds.times do |round|
          warn "Ruby #{@ruby.version}, #{title(row)}: round #{round + 1} of #{@rounds}"
          (round.even? ? KINDS.keys : KINDS.keys.reverse).each { |kind| take_turn(kind, row, folder) }
        end
      end
    end

    # @return [String] two tables
    def render
      %i[seconds cpu].map do |field|
        table = Table.new(["workers x requests", *KINDS.values])
        ROWS.each { |row| table.add(title(row), *KINDS.keys.map { |kind| rounded(median(kind, row, field)) }) }
        @failures.each { |(kind, row), reason| table.note("#{kind}, #{title(row)}", reason) }
        "Ruby #{@ruby.version}: #{field == :cpu ? "CPU seconds of all" : "seconds"}, median of #{@rounds}\n\n#{table}"
      end.join("\n")
    end

    # @return [Hash] for the results file
    def to_h
      { ruby: @ruby.description, rows: ROWS.map do |row|
        { workers: row.first, requests: requests(row), kinds: KINDS.keys.to_h { |kind| [kind, data(kind, row)] } }
      end }
    end

    private

    def title(row) = "#{row.first} x #{requests(row)}"
    def requests(row) = [row.last / @share, 1].max

    def take_turn(kind, row, folder)
      return if @failures.key?([kind, row])

      @turns[[kind, row]] << Bench.account.turn(title(row), kind, ours: kind == OURS) { measure(kind, row, folder) }
    rescue Failed => e
      @failures[[kind, row]] = e.message
      Bench.account.absent(title(row), kind, e.message, ours: kind == OURS)
    end

    def measure(kind, row, folder)
      command = @ruby.command("-I#{folder}", MAIN, kind, row.first.to_s, requests(row).to_s)
      Turn.take(command, name: "workers-#{@ruby.name}-#{kind}-#{row.first}", limit: @limit, cpu: @pinned ? 0 : nil)
    end

    def median(kind, row, field)
      Statistics.median(@turns[[kind, row]].map { |turn| turn.fetch(field) }) unless @failures.key?([kind, row])
    end

    def data(kind, row)
      reason = @failures[[kind, row]]
      { median_seconds: median(kind, row, :seconds), failed: reason, rounds: @turns[[kind, row]] }.compact
    end

    def rounded(value) = value && format("%.2f", value)
  end
end

Bench.main("workers") do |main|
  main.quick("one round, a twentieth of the requests", rounds: 1, share: 20, limit: 30)
  main.option(:rounds, 3, "interleaved rounds")
  main.option(:share, 1, "divides the requests of a turn")
  main.option(:limit, 240, "seconds after which a turn is said to hang")
  main.option(:pinned, false, "everything on one CPU, processes too")
  main.rubies
  main.measure do |options|
    settings = options.except(:rubies)
    { contests: options[:rubies].map { |ruby| main.show(Bench::WorkersContest.new(ruby: ruby, **settings)) } }
  end
end
