# frozen_string_literal: true

module Bench
  # What `strace -c` has counted: system calls, and how many of them failed, for each operation.
  class SystemCalls
    # Share of the time, seconds, microseconds of a call, calls, errors, name.
    LINE = /\A\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:(\d+)\s+)?(\w+)\s*\z/
    LEAST = 0.01 # calls of an operation that are told

    # @return [Hash{String => Float}] calls of an operation, the most frequent first
    attr_reader :all
    # @return [Hash{String => Float}] those that failed
    attr_reader :failed

    # @param text [String] of `strace -c`
    # @param operations [Integer] done meanwhile
    def initialize(text, operations)
      rows = text.lines.filter_map { |line| line.match(LINE)&.captures }.reject { |_, _, name| name == "total" }
      @all = each(rows.to_h { |calls, _, name| [name, calls.to_i] }, operations)
      @failed = each(rows.to_h { |_, errors, name| [name, errors.to_i] }, operations)
    end

    # @return [String] in a line
    def to_s
      all.map { |name, calls| "#{name} #{calls}#{" (#{failed[name]} failed)" if failed.key?(name)}" }.join(", ")
    end

    private

    def each(counts, operations)
      counts.sort_by { |_, count| -count }.to_h.transform_values { |count| count.fdiv(operations).round(2) }
            .select { |_, share| share >= LEAST }
    end
  end
end
