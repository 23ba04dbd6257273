# frozen_string_literal: true

require_relative "log/text"

module Abaca
  # Where requests have waited, or kept their loops, for a time: stacks with the seconds that were spent in each, by
  # route and state, of all workers that have told theirs. It is shown in several forms.
  #
  #   profile = Abaca::Profile.new(kind: "wait", seconds: 10.0)
  #   profile.add(0, 4711, sample)                               # what a Sampler has returned, through JSON
  #   Abaca::Profile::FORMATS.fetch("svg").new(profile).text
  class Profile
    %i[Chart Collapsed Firefox Form JSONForm Sampler Table Tree].each do |name|
      autoload name, File.expand_path("profile/#{name == :JSONForm ? 'json' : name.downcase}", __dir__)
    end

    # What it is of: waits of requests, and requests that keep their loops.
    KINDS = %w[wait stall].freeze
    # Names of forms: text is for people.
    FORMATS = %w[json text collapsed svg firefox].freeze
    # Seconds at most.
    LONGEST = 120

    # One stack of one route in one worker: `label` names the route, nil where there were too many stacks to keep them
    # apart; `state` is what was waited for; `frames` begin with the innermost; `place` is the app's own line.
    Stack = Struct.new(:worker, :label, :state, :frames, :place, :seconds, :samples, keyword_init: true) do
      # @return [Array<String>] from the route to what was waited for
      def path = [label || "(other stacks)", *frames.reverse, *(state && "[#{state}]")]
    end

    # A process that was asked; `pending`: it has not answered.
    Worker = Struct.new(:index, :pid, :pending, :seconds, :looks, keyword_init: true) do
      # @return [String]
      def to_s = "worker #{index} (process #{pid})"
    end

    # @return [String] of KINDS
    attr_reader :kind
    # @return [Numeric] that were asked for; 0: all stalls since the workers began
    attr_reader :seconds
    # @return [Array<Worker>]
    attr_reader :workers
    # @return [Array<Stack>]
    attr_reader :stacks
    # @return [Time] when it began
    attr_reader :began

    # @param kind [String]
    # @param seconds [Numeric]
    # @param began [Time]
    def initialize(kind:, seconds:, began: Time.now)
      @kind = kind
      @seconds = seconds
      @began = began
      @workers = []
      @stacks = []
    end

    # @param index [Integer] of a worker
    # @param pid [Integer]
    # @param found [Hash{Symbol => Object}, nil] what its Sampler has returned; nil: nothing in time
    def add(index, pid, found)
      @workers << Worker.new(index:, pid:, pending: found.nil?, seconds: found&.fetch(:seconds),
                             looks: found&.dig(:looks))
      return unless found

      names = found[:frames].map { |text| Log::Text.line(text) }
      @stacks.concat(found[:stacks].map { |row| stack(index, names, row) })
    end

    # @return [Array<Worker>] that have not answered
    def missing = @workers.select(&:pending)

    # @return [Float] seconds of all stacks
    def total = @stacks.sum(&:seconds)

    # @return [Array<Stack>] those of all workers, equal ones together, the longest first; `worker` is nil
    def merged
      groups = @stacks.group_by { |stack| [stack.label, stack.state, stack.frames] }
      all = groups.each_value.map do |same|
        same.first.dup.tap do |stack|
          stack.worker = nil
          stack.seconds = same.sum(&:seconds)
          stack.samples = same.sum(&:samples)
        end
      end
      all.sort_by { |stack| -stack.seconds }
    end

    # @return [String] what it is, in a line
    def title
      what = kind == "wait" ? "requests waited" : "requests kept their loops"
      span = seconds.zero? ? "so far" : "in #{seconds.round(1)} s"
      answered = workers.size - missing.size
      "#{what} for #{total.round(3)} s #{span}, in #{answered} #{answered == 1 ? 'process' : 'processes'}"
    end

    # @return [Array<String>] who has not answered
    def notes = missing.map { |worker| "#{worker} has not answered in time" }

    # @param format [String] of FORMATS
    # @return [Form]
    def form(format)
      { "json" => JSONForm, "text" => Table, "collapsed" => Collapsed, "svg" => Chart,
        "firefox" => Firefox }.fetch(format).new(self)
    end

    private

    def stack(index, names, row)
      label, state, frames, place, seconds, samples = row
      Stack.new(worker: index, label: label && Log::Text.line(label), state:, frames: frames.map { |one| names[one] },
                place: place && names[place], seconds:, samples:)
    end
  end
end
