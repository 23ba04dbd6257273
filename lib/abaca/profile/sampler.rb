# frozen_string_literal: true

require_relative "../frames"
require_relative "../log/text"

module Abaca
  class Profile
    # What a process that serves tells of itself: for a time, it looks at the requests that wait (WaitSamples), or has
    # samples counted of those that keep their loops. Another thread may end it before.
    class Sampler
      # Seconds between two looks at waits, in the mean: at chance, so that nothing that comes at fixed times is always
      # seen, or never.
      STEP = 0.02
      private_constant :STEP

      # @param server [Server]
      def initialize(server)
        @engine = server.sources.first
        @folder = "#{Dir.pwd}/"
        @frames = {}
        @places = {}
      end

      # @param kind [String] of KINDS
      # @param seconds [Numeric]
      # @return [Hash{Symbol => Object}] for Profile#add
      def take(kind, seconds)
        began = now
        rows, looks = kind == "wait" ? waits(seconds) : stalls(seconds)
        { seconds: (now - began).round(3), looks:, stacks: rows.map { |row| stack(*row) }, frames: @frames.keys }
      end

      # Has it end now.
      def cancel = @cancelled = true

      private

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def waits(seconds)
        samples = WaitSamples.new(@engine)
        go_on(seconds) { samples.look }
        [samples.to_a.select { |row| row[3].positive? }, samples.looks]
      end

      def stalls(seconds)
        @engine.profile_stalls = true unless seconds.zero?
        go_on(seconds) { true }
        rows = @engine.stall_samples(seconds.zero?)
        rows = rows.map { |label, backtrace, time, count| [label, "run", backtrace, time, count] }
        [rows.select { |row| row[3].positive? }, nil]
      ensure
        @engine.profile_stalls = false unless seconds.zero?
      end

      # Until the time is over, nobody wants it any more, or the block finds nothing to look at.
      def go_on(seconds)
        deadline = now + seconds
        nil while yield && now < deadline && !@cancelled && sleep([STEP * (0.5 + rand), deadline - now].min.clamp(0,
                                                                                                                  STEP * 2))
        yield if seconds.positive? && !@cancelled
      end

      def stack(label, state, backtrace, seconds, samples)
        frames = Frames.without_own(backtrace || [])
        frames = backtrace || [] if frames.empty?
        place = backtrace && (@places[backtrace] ||= Frames.place(backtrace))
        [label && Log::Text.utf8(label), state, frames.map { |frame| number(frame) }, place && number(place),
         seconds.round(6), samples]
      end

      def number(frame)
        text = Log::Text.utf8(frame).delete_prefix(@folder).sub(/:in (?=[`'])/, " in ")
        @frames[text] ||= @frames.size
      end
    end
  end
end
