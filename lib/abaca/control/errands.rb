# frozen_string_literal: true

require_relative "answer"
require_relative "replies"

module Abaca
  class Control
    # What the watch has done by a process that serves: a worker, or the single one. It needs that process's Ruby, so it
    # may take its time; who asks waits for a moment.
    class Errands
      # Seconds until the line is made anew, when the watch has ended.
      PAUSE = 0.2
      # Frames of a backtrace.
      FRAMES = 40
      # ... of a request in a list.
      INNERMOST = 10
      private_constant :PAUSE, :FRAMES, :INNERMOST

      # @param enrolment [Enrolment]
      # @param slot [Integer] the process's number in the page
      # @param log [Log]
      # @param server [Server]
      def initialize(enrolment, slot:, log:, server:)
        @enrolment = enrolment
        @slot = slot
        @log = log
        @server = server
        @lock = Mutex.new
        @turn = Mutex.new
        @thread = Thread.new { run }
        @thread.name = "abaca errands"
        @thread.report_on_exception = false
      end

      # Ends the line.
      def close
        @thread.kill.join
        end_profile
        @socket&.close
      end

      private

      def run
        loop do
          @socket = @enrolment.enrol(@slot)
          Replies.new(@socket, @log) { |word, with| answer(word, **with) }.run
          end_profile # nobody is there to read it
          @socket.close
          sleep(PAUSE)
        end
      rescue SystemCallError, IOError
        nil # there is no launcher any more
      end

      def answer(word, **with)
        case word
        when "gc" then collect
        when "fibers" then Answer.json(fibers)
        when "frames" then Answer.json(frames(**with))
        when "pools" then Answer.json(PoolGate.figures)
        when "log-level" then change_log_level(**with)
        when "set" then change(**with)
        when "cancel" then cancel(**with)
        when "profile" then profile(**with)
        when "end-profile" then Answer.json(end_profile)
        else Answer.text(404, "Unsupported action")
        end
      end

      def collect
        began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
        before = GC.stat(:heap_live_slots)
        GC.start
        seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
        Answer.json({ seconds: seconds.round(6), live_slots: GC.stat(:heap_live_slots), live_slots_before: before })
      end

      # Requests come first, the oldest of them before others.
      def fibers
        found = Requests.new(*@server.sources)
        of_requests = found.to_a.select { |row| row.key?(:backtrace) }
        [*of_requests.map { |row| fiber(row).merge(row.slice(:id, :age), request: "#{row[:method]} #{row[:path]}") },
         *found.others.map { |row| fiber(row) }]
      end

      # Of these requests, the line of the app and the innermost frames.
      def frames(ids:)
        ids = ids.fetch(@slot.to_s.to_sym, [])
        @server.sources.first.backtraces(ids).transform_values do |backtrace|
          { line: Frames.place(backtrace).to_s, frames: Frames.without_own(backtrace).first(INNERMOST) }
        end
      end

      def fiber(row)
        { waits_for: row[:waiting_for], detail: row[:detail], frame: row[:frame],
          backtrace: Frames.without_own(row[:backtrace] || []).first(FRAMES) }
      end

      def cancel(id:)
        found = @server.cancel(id)
        @log.info("* Control server: cancel #{id}") if found
        Answer.json(found)
      end

      # The last one that was asked for goes on.
      def profile(kind:, seconds:)
        sampler = Profile::Sampler.new(@server)
        @lock.synchronize { @sampler.tap { @sampler = sampler } }&.cancel
        @log.info("* Control server: #{kind} profile of #{seconds} s")
        Answer.json(@turn.synchronize { sampler.take(kind, seconds) })
      ensure
        @lock.synchronize { @sampler = nil if @sampler.equal?(sampler) }
      end

      def end_profile = @lock.synchronize { @sampler&.cancel } == true

      def change_log_level(level:)
        @log.level = level.to_sym
        Answer.json({ level: })
      end

      def change(max_queue:)
        @server.max_queue = max_queue
        Answer.json({ max_queue: })
      end
    end
  end
end
