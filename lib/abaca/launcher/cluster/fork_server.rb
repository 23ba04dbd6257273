# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # Forks workers from the first one, which has the app's code and data as requests have left them. No server runs
      # meanwhile: neither a native thread nor a loop is there when it forks.
      #
      # A new worker becomes a child of the master at once: the process between the two ends, and the master adopts what
      # it leaves. So the end of any worker is told to the master by the system, and the end of this one is nobody's.
      class ForkServer
        # Seconds between two heartbeats.
        BEAT = 1
        # Seconds between two looks at the parent.
        LOOK = 0.001
        private_constant :BEAT, :LOOK

        # @param config [Config]
        # @param log [Log]
        # @param place [Place] of the first worker
        # @param master [Integer] its process
        # @param mailbox [Mailbox]
        # @param slots [Slots]
        def initialize(config, log, place, master:, mailbox:, slots:)
          @config = config
          @log = log
          @orders = place.orders
          @slot = place.slot
          @master = master
          @mailbox = mailbox
          @slots = slots
        end

        # Waits on a thread of its own until the worker shall rest.
        #
        # @yield then
        def watch
          thread = Thread.new { yield if @orders.next&.word == :rest }
          thread.name = "abaca orders"
        end

        # Obeys the master until the worker shall serve again.
        #
        # @yieldparam place [Place] in each child
        # @yieldreturn [Integer] its exit status
        # @return [Integer, nil] the generation of which it is from now on; nil: it was told to end
        def run(&child)
          @slot.state = :booting
          @mailbox.report(:rests)
          until @ended
            @slot.beat
            order = @orders.next(BEAT) or next
            return order.phase if order.word == :serve

            fork(order, child) if order.word == :fork
          end
        end

        # The worker is told to end. A trap handler may call it.
        def end
          @ended = true
          @orders.ring
        end

        # In a child.
        def close = @orders.close

        private

        def fork(order, child)
          run_hooks(:before_worker_fork, order.index)
          @log.flush # or the child may have a part of a line
          await(Process.fork { exit!(fork_detached(order, child)) })
          run_hooks(:after_worker_fork, order.index)
        rescue SystemCallError => e
          @log.error("cannot fork a worker: #{e.message}")
          @mailbox.report(:not_forked, order.slot)
        end

        # Waits for the process between the two.
        def await(pid)
          _, status = Process.wait2(pid)
          raise Errno::EAGAIN unless status.success?
        rescue Errno::ECHILD
          nil # code of the app has waited for any child
        end

        # In that process.
        def fork_detached(order, child)
          Process.fork { exit(serve_detached(order, child)) }
          true
        rescue SystemCallError
          false
        end

        # In the child, once it is the master's.
        def serve_detached(order, child)
          parent = Process.ppid
          sleep(LOOK) while Process.ppid == parent && parent != @master
          exit!(1) unless Process.ppid == @master # it has ended meanwhile
          @mailbox.report(:forked, order.slot)
          close
          child.call(Place.new(order.index, order.phase, @slots[order.slot]))
        end

        def run_hooks(name, index) = @config.hooks(name).each { |hook| hook.run(@log, index) }
      end
    end
  end
end
