# frozen_string_literal: true

module Bench
  # A row of another benchmark, to be recorded. A subclass runs it.
  class Subject
    # What was found at one server or script: by samples in a first run, by system calls in a second one, and what a
    # script has counted in the first.
    Found = Struct.new(:samples, :calls, :counts, keyword_init: true) do
      def to_h
        { samples: samples.total, shares: samples.shares, functions: samples.functions, calls: calls.all,
          failed: calls.failed, counts: counts&.to_h }.compact
      end
    end

    # @param name [String] of the row, as in the report
    # @param ruby [Ruby] of what runs on Ruby
    # @param seconds [Integer] of the first run
    # @param pinned [Boolean] what is recorded on CPU 0, the rest on CPU 1
    def initialize(name:, ruby:, seconds:, pinned:)
      @name = name
      @ruby = ruby
      @seconds = seconds
      @cpu, @other_cpu = pinned ? [0, 1] : [nil, nil]
    end

    # @return [String] a table of the parts, and lines of their functions and of the system calls
    def render
      table = Table.new(["% of the samples", *found.keys])
      shares = found.values.map { |one| one.samples.shares }
      Samples::PARTS.each { |part| table.add(part, *shares.map { |share| share.fetch(part) }) }
      table.add("number of samples", *found.values.map { |one| one.samples.total })
      absent.each { |label, reason| table.note(label, reason) }
      [table, *found.flat_map { |label, one| ["#{label}:", *lines(one)] }].join("\n")
    end

    # @return [Hash] for the results file
    def to_h = { row: @name, ruby: @ruby.description, absent: absent, turns: found.transform_values(&:to_h) }

    private

    # @return [Hash{String => Found}] of each that took part
    def found = raise(NotImplementedError)

    # @return [Hash{String => String}] who did not, and why
    def absent = raise(NotImplementedError)

    def lines(one)
      functions = one.samples.functions.map do |part, shares|
        "  #{part}: #{shares.map { |function, share| "#{function} #{share}" }.join(", ")}"
      end
      [*functions, "  an operation: #{[one.counts, one.calls].map(&:to_s).reject(&:empty?).join("; ")}"]
    end
  end
end
