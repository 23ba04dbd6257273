# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # When workers are replaced while the cluster serves: for new code, by a refork, or since their time has come. One
      # restart runs at a time; what is asked for meanwhile follows.
      class Restarts
        # @return [Integer] the generation of new workers
        attr_reader :phase

        # @param config [Config]
        # @param log [Log]
        # @param workers [Workers]
        # @param slots [Slots]
        # @param folder [String] where workers look for their code; a link may lead to newer one
        # @param fork [#call] forks a worker with an index, and returns its Handle; nil while there is no room
        # @param stop [#call] ends a worker gracefully
        # @yield before all workers are replaced
        def initialize(config, log, workers, slots, folder:, fork:, stop:, &before) # rubocop:disable Metrics/ParameterLists
          @before = before
          @log = log
          @workers = workers
          @slots = slots
          @folder = folder
          @fork = fork
          @stop = stop
          @phase = 0
          @limit = config[:fork_worker] # requests of the first worker
          @wanted = [] # workers that somebody wants to be replaced
          @recycling = Recycling.new(config, log) { |worker| phased(only: worker) }
        end

        # @return [Handle, nil] a worker that is more than there shall be
        def extra = @present&.extra

        # @return [Boolean] whether one is under way
        def under_way? = !@present.nil?

        # Replaces all workers.
        def begin_phased
          return @phased_due = true if under_way?

          @phased_due = false
          begin_phase
          change_folder
          @log.info("- Starting phased worker restart, phase: #{@phase}")
          @present = phased
        end

        # Forks all workers but the first from that.
        def begin_refork
          first = @workers.first
          return @refork_due = true if under_way? || !first

          @refork_due = false
          begin_phase
          @log.info("- Starting worker refork, phase: #{@phase}")
          others = phased(fork: ->(index) { fork_from(first, index) }, except: first)
          @present = Refork.new(first, others, stop: @stop, log: @log)
        end

        # Replaces one worker, as soon as nothing else is under way.
        #
        # @param worker [Handle]
        def want(worker) = @wanted << worker

        # Does what can be done now.
        #
        # @return [Symbol, nil] how one has ended: :done, :failed, or :replaced for a single worker
        def step
          refork_in_time unless under_way?
          @present ||= replace_wanted || @recycling.due(@workers.active)
          result = @present&.step or return

          @present = nil
          begin_phased if @phased_due
          result
        end

        # A symbolic link may lead to newer code by now.
        def change_folder
          Dir.chdir(@folder)
          @log.info("+ Changing to #{@folder}")
        rescue SystemCallError => e
          @log.error("cannot change to #{@folder}: #{e.message}")
        end

        private

        def begin_phase
          @phase += 1
          @before.call
        end

        def replace_wanted
          worker = @wanted.shift or return
          return unless worker.active?

          @log.info("- #{worker} is replaced: somebody has asked for it")
          phased(only: worker)
        end

        def phased(fork: @fork, **options)
          PhasedRestart.new(@workers, phase: @phase, log: @log, fork:, stop: @stop, **options)
        end

        def fork_from(first, index)
          slot = @slots.free(index, @workers.slots) or return
          first.fork(Place.new(index, @phase, slot)).tap { |worker| @workers << worker }
        end

        # What had to wait, or is due by the number of requests, which it is once.
        def refork_in_time
          first = @workers.first or return
          return begin_refork if @refork_due
          return if @reforked || !@limit.positive? || @workers.active.size < 2

          begin_refork if (@reforked = first.last_status[:requests] >= @limit)
        end
      end
    end
  end
end
