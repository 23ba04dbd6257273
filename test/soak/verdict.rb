# frozen_string_literal: true

module Soak
  # Figures of the server at one moment: bytes of memory, descriptors, threads of the kernel's, fibers, live slots.
  Sample = Struct.new(:seconds, :resident, :descriptors, :threads, :fibers, :slots, keyword_init: true)

  # Whether a server's figures have stayed flat. The first third of a run is warm-up; the last third may not
  # stand higher than the middle one by more than what chance does.
  class Verdict
    # figure => [unit, share that it may have grown, and how much whatever the share]. A client has up to 20 streams at
    # once, each on a fiber, which the pool keeps. Threads for slow clients are made when they are first needed.
    TOLERANCE = {
      resident: ["bytes", 0.05, 8_000_000], descriptors: ["descriptors", 0.0, 3], threads: ["threads", 0.0, 8],
      fibers: ["fibers", 0.1, 8], slots: ["slots", 0.05, 20_000]
    }.freeze
    # Under stress memory says nothing, and the server may make itself what it keeps, a spare loop say, at any time.
    STRESSED = {
      descriptors: ["descriptors", 0.0, 12], threads: ["threads", 0.0, 8], fibers: ["fibers", 0.1, 64]
    }.freeze
    LEAST = 6 # samples

    # @param samples [Array<Sample>] at even distances
    # @param errors [Integer] answers that were wrong
    # @param death [String, nil] how the server ended before its time
    # @param tolerance [Hash] as TOLERANCE
    def initialize(samples:, errors:, death: nil, tolerance: TOLERANCE)
      @tolerance = tolerance
      @samples = samples
      @errors = errors
      @death = death
    end

    # @return [Boolean]
    def passed? = complaints.empty?

    # @return [Array<String>] what is wrong, a line each
    def complaints
      @complaints ||= [@death, ("#{@errors} answers were wrong" if @errors.positive?), *growth].compact
    end

    # @return [Hash{Symbol => Array(Numeric, Numeric)}] figure => medians of the middle and of the last third
    def thirds
      count = @samples.size / 3
      middle, last = @samples.last(2 * count).each_slice([count, 1].max).to_a
      @tolerance.keys.to_h { |name| [name, [middle, last].map { |part| median(part.to_a.map(&name)) }] }
    end

    private

    def growth
      return ["#{@samples.size} samples are too few for a verdict, #{LEAST} are needed"] if @samples.size < LEAST

      thirds.filter_map do |name, (before, after)|
        unit, share, least = @tolerance.fetch(name)
        next if after - before <= [before * share, least].max

        "#{unit} grow: #{before.round} in the middle third, #{after.round} in the last"
      end
    end

    def median(values) = values.sort[values.size / 2] || 0
  end
end
