# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # Replaces all workers but the first by such that are forked from it. The first one stops serving, the others are
      # replaced one after the other, and it serves again.
      class Refork
        # @param first [Handle] the worker with number 0
        # @param others [PhasedRestart] for all others
        # @param stop [#call] ends a worker gracefully
        # @param log [Log]
        def initialize(first, others, stop:, log:)
          @first = first
          @others = others
          @stop = stop
          @log = log
          first.rest
        end

        # @return [Handle, nil] a worker that is more than there shall be
        def extra = @others.extra

        # Does what can be done now.
        #
        # @return [Symbol, nil] :done or :failed once it is over
        def step
          return give_up unless @first.active?
          return @result if @result && @first.serves?
          return if @result || !@first.rests?

          @result = @others.step or return
          @first.serve(@others.phase)
          nil
        end

        private

        def give_up
          @log.error("the refork is given up: #{@first} has ended")
          @stop.call(extra) if extra
          :failed
        end
      end
    end
  end
end
