# frozen_string_literal: true

require_relative "units"

module Abaca
  class Sight
    # One request in detail: what it has spent its time with, and its last waits on a line of time.
    class Waterfall
      # Columns of the line of time.
      BAR = 30
      private_constant :BAR

      # A wait: seconds from the request's begin, seconds, a state, and what it was for.
      Wait = Struct.new(:at, :time, :state, :target)

      # @param request [Hash{Symbol => Object}] with `waits`
      # @param ended [Boolean] whether it is no more
      # @param stalls [Array<Hash>] when others have kept its loop: as Reading#stalls has it
      def initialize(request, ended: false, stalls: [])
        @request = request
        @ended = ended
        @stalls = stalls
      end

      # @return [Array<Wait>] in the order of time
      def waits
        @waits ||= begin
          list = (@request[:waits] || []).map { |wait| Wait.new(*wait) }
          @ended ? list : [*list, current]
        end
      end

      # @return [Hash{Symbol => Float}] seconds in each state, the longest first
      def sums = (@request[:sums] || {}).select { |_, time| time.positive? }.sort_by { |_, time| -time }.to_h

      # @return [Hash{Symbol => Object}] for JSON
      def to_h = { **@request, ended: @ended, sums:, waits: waits.map(&:to_h), stalls: @stalls }

      # @param ascii [Boolean] whether only ASCII may be shown
      # @return [Array<String>] safe to show
      def lines(ascii: false)
        [*head(ascii), "", "where its time went", *sum_lines, "", "its last waits, from its begin on",
         *waits.map { |wait| wait_line(wait, ascii) }, *stall_lines(ascii)]
      end

      private

      # A request that has ended waits for nothing.
      def current
        since = @request[:since]
        Wait.new([@request[:age] - since, 0].max, since, @request[:state], @request[:waits_for])
      end

      def age = [@request[:age].to_f, 1e-6].max

      def head(ascii)
        first = "#{@request[:method]} #{@request[:path]}"
        facts = { id: Sight.name(@request[:id]), route: @request[:route], client: @request[:peer],
                  mode: @request[:mode], phase: @request[:phase], status: @request[:status], end: @request[:end],
                  children: (@request[:children] unless @request[:children].to_i.zero?),
                  trace: @request[:trace] }.compact
        state = @ended ? "ended" : "now #{@request[:state]} for #{Units.seconds(@request[:since])}"
        [Text.safe(first, ascii:), "age #{Units.seconds(@request[:age])}  #{state}",
         facts.map { |name, value| "#{name} #{Text.safe(value, ascii:)}" }.join("  ")]
      end

      def sum_lines
        whole = sums.values.sum
        sums.map do |state, time|
          share = time / whole
          format("%-9<state>s %8<time>s %5.1<share>f%%  %<bar>s",
                 state:, time: Units.seconds(time), share: share * 100, bar: "#" * (share * BAR).round.clamp(0, BAR))
        end
      end

      # From which column of the line of time on, and how many.
      def columns(at, time)
        from = (at / age * BAR).floor.clamp(0, BAR - 1)
        [from, (time / age * BAR).ceil.clamp(1, BAR - from)]
      end

      # The line without a wait: where others have kept the loop it has other columns.
      def background
        @background ||= @stalls.each_with_object("." * BAR) do |stall, line|
          from, size = columns(stall[:at], stall[:time])
          line[from, size] = ":" * size
        end
      end

      def stall_lines(ascii)
        return [] if @stalls.empty?

        ["", "others that have kept its loop (:)", *@stalls.map do |stall|
          request = "request #{stall[:request]}  " if stall[:request]
          "#{Units.seconds(stall[:at]).rjust(8)} #{Units.seconds(stall[:time]).rjust(8)}  #{request}" \
          "#{Text.safe(stall[:text], ascii:)}".rstrip
        end]
      end

      def wait_line(wait, ascii)
        from, size = columns(wait.at, wait.time)
        bar = background.dup
        bar[from, size] = (wait.state == :gc ? "%" : "#") * size
        "#{Units.seconds(wait.at).rjust(8)} #{bar} #{Units.seconds(wait.time).rjust(8)}  #{wait.state} " \
        "#{Text.safe(wait.target, ascii:)}".rstrip
      end
    end
  end
end
