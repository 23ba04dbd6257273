# frozen_string_literal: true

# New fibers beside jobs of a FiberPool: allocate, count, reuse, switch, on every Ruby. See README.md.
# Usage: ruby bench/fibers.rb --help

require_relative "support/bench"
require_relative "fibers/rows"

module Bench
  # Every row on one Ruby, in interleaved rounds, each turn in a process of its own, because CRuby decides at start
  # whether it gives stacks back to the kernel.
  class FibersContest
    COLUMNS = [%w[fresh 1], %w[fresh 0], %w[pool 1], %w[pool 0]].freeze
    TITLES = { "fresh" => "Fiber.new", "pool" => "FiberPool", "1" => "given back", "0" => "kept" }.freeze
    LIMIT = 120 # seconds for one turn

    def initialize(ruby:, rounds:, share:, pinned:)
      @ruby = ruby
      @rounds = rounds
      @share = share
      @pinned = pinned
      @turns = Hash.new { |hash, key| hash[key] = [] }
      @failures = {}
    end

    def run
      @ruby.abaca # compiled before anything is measured
      FiberRows::ROWS.each do |row|
        @rounds.times do |round|
          warn "Ruby #{@ruby.version}, #{row.name}: round #{round + 1} of #{@rounds}"
          (round.even? ? COLUMNS : COLUMNS.reverse).each { |column| take_turn(column, row) }
        end
      end
    end

    # @return [String] a table
    def render
      table = Table.new(["ns for each", *COLUMNS.map { |column| title(column) }, "given back", "kept", "operation"])
      FiberRows::ROWS.each do |row|
        cells = COLUMNS.map { |column| median(column, row)&.round }
        ratios = [[0, 2], [1, 3]].map { |pair| ratio(row, *COLUMNS.values_at(*pair)) }
        table.add(row.name, *cells, *ratios, row.operation)
      end
      @failures.each { |(column, row), reason| table.note("#{row}, #{title(column)}", reason) }
      "Ruby #{@ruby.version}: medians of #{@rounds}, stacks given back to the kernel or kept, and how many times " \
        "faster the pool is\n\n#{table}"
    end

    # @return [Hash] for the results file
    def to_h
      { ruby: @ruby.description, rows: FiberRows::ROWS.to_h { |row| [row.name, data(row)] } }
    end

    private

    def title((kind, stacks)) = "#{TITLES[kind]}, #{TITLES[stacks]}"
    def ratio(row, fresh, pool) = Ratio.new(figures(fresh, row), figures(pool, row)).cell&.then { |times| "#{times}x" }

    def take_turn(column, row)
      return if @failures.key?([column, row.name])

      @turns[[column, row.name]] <<
        Bench.account.turn(place(row), title(column), ours: ours?(column)) { measure(*column, row) }
    rescue Failed => e
      @failures[[column, row.name]] = e.message
      Bench.account.absent(place(row), title(column), e.message, ours: ours?(column))
    end

    def place(row) = "#{row.name}, Ruby #{@ruby.version}"
    def ours?(column) = column.first == "pool"

    def measure(kind, stacks, row)
      Turn.take(FiberRows.command(@ruby, kind, row, @share),
                name: "fibers-#{@ruby.name}-#{kind}-#{stacks}", env: { FiberRows::SWITCH => stacks }, limit: LIMIT,
                cpu: @pinned ? 0 : nil)
    end

    # Nanoseconds for each operation.
    def figures(column, row)
      return [] if @failures.key?([column, row.name])

      @turns[[column, row.name]].map { |turn| turn.fetch(:seconds) / turn.fetch(:operations) * 1e9 }
    end

    def median(column, row) = Statistics.median(figures(column, row))

    def data(row)
      columns = COLUMNS.to_h do |column|
        [title(column), { failed: @failures[[column, row.name]], median_ns: median(column, row),
                          rounds_ns: figures(column, row) }.compact]
      end
      { operation: row.operation, operations: row.count(@share) }.merge(columns)
    end
  end
end

Bench.main("fibers") do |main|
  main.quick("one round, a tenth of the operations", rounds: 1, share: 10)
  main.option(:rounds, 5, "interleaved rounds")
  main.option(:share, 1, "divides the operations of a turn")
  main.rubies("only these Rubies (this one and all of bin/matrix's)", default: Bench::Ruby.pick)
  main.unpinned("leave the processes to the kernel's scheduler")
  main.measure do |options|
    absent = {}
    contests = options[:rubies].filter_map do |ruby|
      main.show(Bench::FibersContest.new(ruby: ruby, **options.except(:rubies)))
    rescue Bench::Unavailable => e
      absent[ruby.name] = e.message
      puts "", "Ruby #{ruby.name}: #{e.message}"
      nil
    end
    raise Bench::Unavailable, "no Ruby could run it" if contests.empty?

    { absent: absent, contests: contests }
  end
end
