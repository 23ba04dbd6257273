# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # Forks workers, with what all of them get from the master.
      class Forks
        # @param config [Config]
        # @param log [Log]
        # @param listeners [Listeners] that are open
        # @param mailbox [Mailbox]
        # @yieldparam place [Place]
        # @yieldreturn [Worker] in the child
        def initialize(config, log:, listeners:, mailbox:, &worker)
          @config = config
          @log = log
          @listeners = listeners
          @mailbox = mailbox
          @worker = worker
          @lifeline = Lifeline.new
        end

        # @param place [Place]
        # @return [Handle]
        def fork(place)
          place.orders = Orders.new if @config.reforks? && place.index.zero?
          run_hooks(:before_worker_fork, place.index)
          @log.flush # or the child may have a part of a line
          pid = Process.fork { exit(@worker.call(place).run(@listeners, @mailbox, @lifeline)) }
          run_hooks(:after_worker_fork, place.index)
          Handle.new(pid, place)
        end

        # Workers that are left end. Idempotent.
        def close = @lifeline.close

        private

        def run_hooks(name, index) = @config.hooks(name).each { |hook| hook.run(@log, index) }
      end
    end
  end
end
