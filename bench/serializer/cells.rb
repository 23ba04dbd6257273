# frozen_string_literal: true

module Bench
  # A table whose every cell is measured in processes of its own (turn.rb), in interleaved rounds: CPU
  # time in each of them, and once what an operation allocates.
  class Cells
    MAIN = File.join(DIR, "serializer", "turn.rb")
    OURS = "Outbox"
    LIMIT = 120 # seconds for one turn
    FIGURES = { ns: "ns of CPU", objects: "Ruby objects", mallocs: "mallocs" }.freeze

    # @return [Array<String>] what runs a cell in a process of its own
    def self.command(ruby, column, name, times)
      ruby.command("-W:no-experimental", "-I#{ruby.abaca}", MAIN, column, name, times.to_s)
    end

    # @param columns [Hash] name => how many times
    # @param names [Array<String>] of the rows
    # @param titles [Hash] name of a column => what its operation is
    # @param ruby [Ruby] that does them
    def initialize(columns:, names:, titles:, rounds:, cpu:, ruby:)
      @ruby = ruby
      @columns = columns
      @names = names
      @titles = titles
      @rounds = rounds
      @cpu = cpu
      @turns = Hash.new { |hash, key| hash[key] = [] }
      @counts = {}
      @absent = {}
    end

    def run
      @ruby.abaca # compiled before anything is measured
      @counter = Compiler.library("serializer/malloc_count.c")
      @columns.each_key do |column|
        @names.each { |name| count(column, name) }
        @rounds.times do |round|
          warn "#{column}: round #{round + 1} of #{@rounds}"
          (round.even? ? @names : @names.reverse).each { |name| time(column, name) }
        end
      end
    end

    # @return [String] a table for each figure
    def render
      tables = FIGURES.map { |figure, title| "#{title} for each operation\n\n#{table(figure)}" }
      titles = @titles.map { |column, title| "#{column}: #{title}" }
      notes = @absent.reject { |_, reason| reason.empty? }.map { |cell, reason| "#{cell.join(", ")}: #{reason}" }
      [*tables, *titles, *notes].join("\n")
    end

    # @return [Hash] for the results file
    def to_h
      cells = @names.to_h do |name|
        [name, @columns.keys.to_h { |column| [column, data([column, name])] }]
      end
      { operations: @titles, cells: cells }
    end

    private

    def table(figure)
      table = Table.new(["", *@columns.keys])
      @names.each do |name|
        table.add(name, *@columns.keys.map { |column| cell([column, name], figure) })
      end
      table
    end

    def cell(key, figure)
      return if @absent.key?(key)

      value = figure == :ns ? median(key) : @counts[key].fetch(figure)
      format(figure == :ns ? "%.1f" : "%.2f", value)
    end

    def data(key)
      return { absent: @absent[key] } if @absent.key?(key)

      { ns_median: median(key), ns_rounds: @turns[key] }.merge(@counts[key])
    end

    def median(key) = Statistics.median(@turns[key])

    def count(column, name)
      turn = take(column, name, { "LD_PRELOAD" => @counter })
      return @absent[[column, name]] = "" if turn[:absent]

      @counts[[column, name]] = %i[objects mallocs].to_h do |figure|
        [figure, turn.fetch(figure).fdiv(turn.fetch(:operations))]
      end
    rescue Failed => e
      absent(column, name, e.message)
    end

    def time(column, name)
      return if @absent.key?([column, name])

      turn = Bench.account.turn(column, name, ours: name == OURS) { take(column, name, {}) }
      @turns[[column, name]] << (turn.fetch(:seconds) / turn.fetch(:operations) * 1e9)
    rescue Failed => e
      absent(column, name, e.message)
    end

    def absent(column, name, reason)
      @absent[[column, name]] = reason
      Bench.account.absent(column, name, reason, ours: name == OURS)
    end

    def take(column, name, env)
      command = Cells.command(@ruby, column, name, @columns[column])
      Turn.take(command, name: "serializer-calls", env: env, limit: LIMIT, cpu: @cpu)
    end
  end
end
