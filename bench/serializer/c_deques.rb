# frozen_string_literal: true

require "open3"

module Bench
  # Runs deques.c, which measures its variants in rounds of its own.
  class CDeques
    OPERATIONS = 20_000_000

    # @param items [Array<Integer>] queued before the queue is emptied
    # @param share [Integer] a part of the operations
    def initialize(items:, share:, cpu:)
      @items = items
      @operations = OPERATIONS / share
      @pin = cpu ? ["taskset", "-c", cpu.to_s] : []
      @found = Hash.new { |hash, variant| hash[variant] = {} }
    end

    def run
      warn "deques in C"
      counter = Compiler.library("serializer/malloc_count.c")
      command = [*@pin, Compiler.program("serializer/deques.c"), @operations.to_s, *@items.map(&:to_s)]
      text, status = Open3.capture2e({ "LD_PRELOAD" => counter }, *command)
      raise Failed, "deques: #{text.lines.last}" unless status.success?

      text.scan(/variant=(\w+) items=(\d+) ns=([\d.]+) mallocs=([\d.]+)/) do |variant, items, ns, mallocs|
        @found[variant][items.to_i] = { ns_least: ns.to_f, mallocs: mallocs.to_f }
      end
    end

    # @return [String] a table
    def render
      table = Table.new(["ns of CPU", *@items.map(&:to_s), "mallocs"])
      @found.each do |variant, figures|
        table.add(variant, *@items.map { |items| figures[items].fetch(:ns_least).round(2) },
                  figures.values.map { |figure| figure[:mallocs] }.max)
      end
      table.to_s
    end

    # @return [Hash] for the results file
    def to_h = { operations: @operations, variants: @found }
  end
end
