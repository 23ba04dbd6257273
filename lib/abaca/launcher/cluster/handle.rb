# frozen_string_literal: true

require_relative "../last_beat"

module Abaca
  class Launcher
    class Cluster
      # A worker as the master sees it.
      class Handle
        # Seconds after which a worker that ends has served.
        MOMENT = 1
        # Seconds for one that is forked by another worker to report its process.
        FORK_TIME = 10
        # Signals of a process to itself.
        CRASHES = %w[ABRT BUS FPE ILL SEGV SYS TRAP].map { |name| Signal.list.fetch(name) }.freeze
        private_constant :MOMENT, :FORK_TIME, :CRASHES

        # @return [Integer] its number; at a phased restart, its successor has the same
        attr_reader :index
        # @return [Integer, nil] of its process; nil until one that another worker forks has reported it
        attr_reader :pid
        # @return [Integer] its generation
        attr_reader :phase
        # @return [Time] when it was forked
        attr_reader :started_at
        # @return [Page::Slot] its part of the shared page
        attr_reader :slot
        # @return [Process::Status, nil] how it ended, as far as it is known
        attr_reader :process_status

        # @param pid [Integer, nil]
        # @param place [Place]
        # @param clock [#call] returns seconds
        def initialize(pid, place, clock: -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) })
          @clock = clock
          @pid = pid
          @index, @phase, @slot, @orders = *place
          @last_beat = LastBeat.new(@slot)
          @started_at = Time.now
          @forked = now
        end

        # It has reported its process.
        #
        # @param pid [Integer]
        def forked(pid)
          @pid = pid
          signal(@signal) if @signal
        end

        # @return [Boolean] whether it is to be given up, since no process has reported
        def lost? = @pid.nil? && (@lost || age > FORK_TIME)

        # No process will report.
        def lose = @lost = true

        # It serves from now on.
        def boot = @booted = now

        # --- a refork, of one from which others are forked ---

        # @return [Boolean] whether others can be forked from it
        def can_fork? = !@orders.nil? && booted? && active?

        # It shall stop serving, and fork others.
        def rest
          @rest = :begins
          @orders.rest
        end

        # It has stopped serving.
        def begin_rest = @rest = :rests

        def rests? = @rest == :rests

        # It shall fork a worker.
        #
        # @param place [Place]
        # @return [Handle] of that
        def fork(place)
          @orders.fork(place)
          Handle.new(nil, place)
        end

        # It shall serve again.
        #
        # @param phase [Integer] as one of this generation
        def serve(phase)
          @rest = :ends
          @next_phase = phase
          @orders.serve(phase)
        end

        # It serves again.
        def end_rest
          @rest = nil
          @phase = @next_phase
        end

        def serves? = booted? && @rest.nil?

        # In another process, or when it has ended: lets go of what is for it alone.
        def close_orders = @orders&.close

        # --- its life ---

        # @return [Float] seconds since its last heartbeat, or since it has booted
        def silence
          now = self.now
          [@last_beat.age(now), now - @booted].compact.min
        end

        # @return [Time] of its last heartbeat, or its start
        def last_checkin = @slot.beat_age ? Time.now - @slot.beat_age : @started_at

        # @return [Hash{Symbol => Object}] its figures (docs/page.md)
        def last_status = @slot.figures

        # It does not turn.
        #
        # @param seconds [Numeric] after which it is killed
        def hang(seconds)
          @hung = true
          kill_in(seconds)
        end

        def hung? = @hung == true

        # It turns again.
        def forgive
          @hung = false
          kill_in(nil)
        end

        def booted? = !@booted.nil?

        # @return [Float] seconds since it was forked
        def age = now - @forked

        # @return [Boolean] whether it serves, or shall
        def active? = !stopping? && !ended?

        # @return [Boolean] whether it was told to end
        def stopping? = !@stopping.nil?

        def ended? = @ended == true

        # Its process has been reaped.
        #
        # @param status [Process::Status, nil] nil: there was none, or other code has it
        def end_with(status)
          @ended = true
          @process_status = status
          close_orders
          @served = @booted ? now - @booted : 0
          @slot.state = :ended unless @slot.state == :empty
        end

        # Tells readers of the page, when it has ended: a death, if nobody has told it to, and why another one follows.
        #
        # @param text [String]
        # @param replaced [Boolean] whether the master looks after the number of workers
        def tell_end(text, replaced:)
          @slot.note(:death, text, pid: @pid || 0) unless stopping?
          why = stopping? ? @why : :death
          @slot.count_restart(why) if why && replaced
        end

        # @return [Boolean] whether it gave up, or crashed, before it had served for a moment. One that somebody has
        #   killed has not failed
        def failed?
          return false unless process_status && !stopping?
          return @served < MOMENT && bad_end? if booted?

          process_status.exited? || bad_end?
        end

        # Ends it: gracefully, or at once.
        #
        # @param at_once [Boolean]
        # @param within [Numeric, nil] seconds after which it is killed; nil: never
        def stop(within:, at_once: false)
          return if @stopping == :at_once || (stopping? && !at_once)

          @stopping = at_once ? :at_once : :gracefully
          @hung = false
          kill_in(within)
          signal(at_once ? "QUIT" : "TERM")
        end

        # Ends it gracefully, while others continue with the listeners.
        #
        # @param within [Numeric, nil] as for #stop
        # @param why [Symbol, nil] if another one is to follow (Page::Slot#count_restart)
        def hand_over(within:, why: nil)
          @why = why unless stopping?
          return stop(within:) unless booted?
          return if stopping?

          @stopping = :gracefully
          @hung = false
          kill_in(within)
          signal("USR2")
        end

        # Kills it after these seconds, or never.
        def kill_in(seconds) = @kill_at = seconds && (now + seconds)

        # Kills it now.
        #
        # @param why [Symbol, nil] if another one is to follow
        def kill(why: nil)
          @kill_at = nil
          @why = why unless stopping?
          @stopping ||= :killed
          signal("KILL")
        end

        # @return [Boolean] whether it has to be killed
        def overdue? = !@kill_at.nil? && now >= @kill_at

        # @return [Float, nil] seconds until it has to be looked at
        def due_in = @kill_at && [@kill_at - now, 0].max

        # @param name [String]
        def signal(name)
          return @signal = name unless @pid

          Process.kill(name, @pid) unless ended?
        rescue Errno::ESRCH
          nil # it has ended, and is about to be reaped
        end

        # @return [String] for the log
        def how_it_ended
          return @pid ? "has ended" : "was not forked" unless process_status
          return "was killed by #{Signal.signame(process_status.termsig)}" if process_status.signaled?

          "has ended with status #{process_status.exitstatus}"
        end

        # @return [String] for the log
        def to_s = "Worker #{@index} (PID: #{@pid || 'none yet'})"

        private

        def bad_end? = CRASHES.include?(process_status.termsig) || (process_status.exitstatus || 0).positive?

        def now = @clock.call
      end
    end
  end
end
