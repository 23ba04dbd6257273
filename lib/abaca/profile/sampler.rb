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
      # Seconds that a request has to run between two looks, where nothing else is said: as `stall_after`.
      RUN = 0.02
      private_constant :STEP, :RUN

      # @param server [Server]
      def initialize(server)
        @engine = server.sources.first
        @after = [server.config[:stall_after] / 1000.0, RUN].max
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

      # Of loops the standby takes samples, even when no profile runs; where there is none, this thread looks.
      def stalls(seconds)
        samples = WaitSamples.new(@engine)
        @engine.profile_stalls = true unless seconds.zero?
        go_on(seconds) { samples.look_at_runs(@after) }
        rows = @engine.stall_samples(seconds.zero?)
        rows = rows.map { |label, backtrace, time, count| [label, "run", backtrace, time, count] }
        [(rows + samples.to_a).select { |row| row[3].positive? }, samples.looks]
      ensure
        @engine.profile_stalls = false unless seconds.zero?
      end

      # Until the time is over, nobody wants it any more, or the block finds nothing to look at.
      def go_on(seconds)
        deadline = now + seconds
        while yield
          left = deadline - now
          break if @cancelled || !left.positive?

          sleep([STEP * (0.5 + rand), left].min)
        end
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
