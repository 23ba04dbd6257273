# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # Replaces the workers of older generations one after the other. A successor boots first, beside the worker that
      # it replaces: if it does not come up, the restart is given up, and the old workers serve on.
      class PhasedRestart
        # @param workers [Workers]
        # @param phase [Integer] the new generation
        # @param fork [#call] forks a worker with an index, and returns its Handle; nil while there is no room
        # @param stop [#call] ends a worker gracefully
        # @param log [Log]
        # @param only [Handle, nil] the one worker to replace, whatever its generation
        # @param except [Handle, nil] the one that stays, at a refork
        def initialize(workers, phase:, fork:, stop:, log:, only: nil, except: nil) # rubocop:disable Metrics/ParameterLists
          @workers = workers
          @only = only
          @except = except
          @phase = phase
          @fork = fork
          @stop = stop
          @log = log
        end

        # @return [Integer] the new generation
        attr_reader :phase

        # @return [Handle, nil] a worker that is more than there shall be
        def extra = @successor

        # Does what can be done now.
        #
        # @return [Symbol, nil] :done or :failed once it is over; :replaced for one worker, in any case
        def step
          return check_successor if @successor
          return if @old && !@old.ended?

          old = outdated.min_by(&:index) or return @only ? :replaced : :done
          @successor = @fork.call(old.index) or return
          @old = old
          nil
        end

        private

        def outdated = @workers.active.select { |worker| @only ? worker.equal?(@only) : outdated?(worker) }

        def outdated?(worker) = worker.phase < @phase && !worker.equal?(@except)

        def check_successor
          return give_up if @successor.ended?
          return @successor = nil unless @old.active? # it takes that place
          return unless @successor.booted?

          @successor = nil
          @log.info("- Stopping #{@old.pid}#{purpose}...")
          @stop.call(@old, why)
          nil
        end

        # As Handle#hand_over is told.
        def why
          return :recycle if @only

          @except ? :refork : :restart
        end

        def purpose
          return if @only

          @except ? " for refork" : " for phased upgrade"
        end

        def give_up
          return give_up_one if @only

          @log.error("the #{@except ? 'refork' : 'phased restart'} is given up: a worker of phase #{@phase} did not " \
                     "boot; those of older phases continue")
          :failed
        end

        def give_up_one
          @log.error("#{@only} continues: its successor did not boot")
          :replaced
        end
      end
    end
  end
end
