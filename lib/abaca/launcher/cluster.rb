# frozen_string_literal: true

require_relative "app"
require_relative "single"
require_relative "cluster/back_off"
require_relative "cluster/care"
require_relative "cluster/closing"
require_relative "cluster/ending"
require_relative "cluster/forks"
require_relative "cluster/handle"
require_relative "cluster/idle"
require_relative "cluster/lifeline"
require_relative "cluster/mailbox"
require_relative "cluster/fork_server"
require_relative "cluster/orders"
require_relative "cluster/phased_restart"
require_relative "cluster/preload"
require_relative "cluster/recycling"
require_relative "cluster/refork"
require_relative "cluster/restarts"
require_relative "cluster/slots"
require_relative "cluster/other_children"
require_relative "cluster/warm_up"
require_relative "cluster/watch"
require_relative "cluster/wishes"
require_relative "cluster/worker"
require_relative "cluster/workers"

module Abaca
  class Launcher
    # The runner of several processes: a master, which forks workers and looks after them, and the workers, which serve
    # (docs/cluster.md). The master waits at one place, its mailbox, and does everything else in turns of #look_around.
    # After the boot it runs nothing of the app but hooks.
    class Cluster
      include Wishes

      # Seconds that the master has for what is left when every worker has been killed.
      GRACE = 5
      private_constant :GRACE

      # Loads the app if workers shall share it.
      #
      # @param config [Config]
      # @param app [#call, nil] in place of the rackup file
      # @param log [Log]
      # @param output [Output]
      # @param in_worker [#call] is called in each worker first, to let go of what is the master's
      # @param control [Control] has errands for workers
      # @param slots [Slots] the shared page
      # @param folder [String] where workers look for their code; a link may lead to newer one
      # @raise [ConfigError] if the app does not load
      def initialize(config, app:, log:, output:, in_worker:, control:, slots:, folder:) # rubocop:disable Metrics/ParameterLists -- what a cluster is made of
        @config = config
        @app = app
        @log = log
        @output = output
        @in_worker = in_worker
        @control = control
        @ending = Ending.new(config)
        @target = config[:workers]
        @back_off = BackOff.new
        @care = Care.new(config, log)
        @slots = slots
        @workers = Workers.new(log)
        @watch = Watch.new(@workers, config[:worker_check_interval])
        @restarts = Restarts.new(config, log, @workers, @slots, folder:, fork: method(:fork_worker),
                                                                stop: method(:retire)) { @before_restart&.call }
        @app ||= Preload.load(config, log) if config[:preload_app]
        @mailbox = Mailbox.new
      end

      # @return [nil] the master has none
      def server = nil

      # @return [String] what is logged when it stops gracefully
      def parting = "- Gracefully shutting down workers..."

      # @return [Boolean] whether the master has the app, so that new code needs a new master
      def preloaded? = !@app.nil?

      # @param listeners [Listeners] that are open
      def listen(listeners)
        @listeners = listeners
        @closing = Closing.new(listeners, @config[:shutdown_delay])
      end

      # @return [TLS::Keeper, nil] has the certificates
      attr_writer :keeper

      # @yield before each phased restart and each refork
      def before_restart(&block) = @before_restart = block

      # Looks after workers until it is stopped.
      #
      # @yield whenever all workers have booted: at the start, and after a phased restart
      # @yieldparam complete [Boolean] false: the phased restart was given up
      def run(&booted)
        @on_booted = booted
        @forks = Forks.new(@config, log: @log, listeners: @listeners, mailbox: @mailbox) { |place| worker(place) }
        @idle = Idle.new(@config[:idle_timeout])
        Engine.adopt_orphans if @config.reforks?
        run_hooks(:before_fork, nil)
        WarmUp.run(@config, preloaded: preloaded?)
        @master = Process.pid
        @booting = true
        @mailbox.post
        @watch.turn && look_around until over?
      end

      # Stops all workers. A trap handler may call it.
      #
      # @param at_once [Boolean] or else gracefully
      def stop(at_once:) = @mailbox.post(at_once ? :halt : :stop)

      # Stops gracefully, while another master's workers continue with the listeners. Any thread may call it.
      def hand_over = @mailbox.post(:hand_over)

      # Replaces the workers one after the other. A trap handler may call it.
      #
      # @return [Boolean] false if that would not load new code
      def phased_restart = !preloaded? && posted?(:phased_restart)

      # Forks all workers but the first from that. A trap handler may call it.
      #
      # @return [Boolean] false without `fork_worker`, or with a single worker
      def refork = @config.reforks? && @target > 1 && posted?(:refork)

      # The next workers begin where the link of the working folder leads by then. Any thread may call it.
      #
      # @return [Boolean] whether the master is there
      def reload_worker_directory = posted?(:change_folder)

      # One worker more. A trap handler may call it.
      def add_worker = @mailbox.post(:add_worker)

      # One worker less. A trap handler may call it.
      def remove_worker = @mailbox.post(:remove_worker)

      # Workers reopen their logs. A trap handler may call it.
      def reopen = @mailbox.post(:reopen)

      # Workers log what their requests wait for. A trap handler may call it.
      def dump = @mailbox.post(:dump)

      # A child has ended. A trap handler may call it.
      def child_ended = @mailbox.post(:child_ended)

      # @return [Hash{Symbol => Object}] figures in Puma's shape; a worker knows them, too
      def stats = @slots.stats(@config)

      # @param at_once [Boolean]
      # @return [Numeric, nil] seconds that #run may take after #stop; nil: as long as it wants
      def patience(at_once:)
        seconds = @ending.patience(at_once:)
        seconds && (seconds + GRACE)
      end

      # @param limit [Float] seconds
      # @return [Boolean] whether all workers have turned within them, and the master. Any thread may ask
      def lively?(limit) = @watch.within?(limit)

      # Ends workers without waiting for anything.
      def kill = @workers.each(&:kill)

      # Ends what #run has left, if it raised.
      def close
        kill
        @forks&.close
        @mailbox.close
        @slots.close
      end

      private

      # False if the master has ended.
      def posted?(command) = !@mailbox.post(command).nil?

      # --- a turn ---

      def over? = @stopping && @workers.empty?

      def look_around
        @mailbox.wait(pause).each { |report| note(report) }
        while (command = @mailbox.command)
          command.is_a?(Array) ? obey_for(*command) : obey(command)
        end
        @workers.reap.each { |worker| note_end(worker) }
        @closing.step
        @workers.each { |worker| @care.look_after(worker) }
        return if @stopping || stop_idle

        restart_on
        fill
        cull
        tell_booted
      end

      # Seconds until something is due.
      def pause
        due = [*@workers.map(&:due_in), @workers.due_in, @closing.left].compact
        due << @idle.left if @idle.wanted? && !@stopping
        due << @back_off.left if @back_off.left.positive?
        [@config[:worker_check_interval], *due].min
      end

      def obey(command)
        case command
        when :stop then begin_stop(at_once: false)
        when :hand_over then begin_hand_over
        when :halt then begin_stop(at_once: true)
        when :phased_restart then @restarts.begin_phased
        when :refork then @restarts.begin_refork
        when :add_worker then add
        when :remove_worker then remove
        when :reopen then signal_all("HUP")
        when :dump then signal_all(Signals::DUMP)
        when :change_folder then @restarts.change_folder
        when :child_ended then @workers.expect_other_child
        end
      end

      def add
        return @target += 1 if @target < @slots.most

        @log.warn("there cannot be more than #{@slots.most} workers")
      end

      def remove
        return @target -= 1 if @target > 1

        @log.warn("one worker stays")
      end

      def signal_all(name) = @workers.each { |worker| worker.signal(name) if worker.booted? }

      # --- workers ---

      def fill
        missing = @target - regular.size
        missing.times { fork_worker(@workers.free_index) if @back_off.left.zero? } if missing.positive?
      end

      # Those that count: at a phased restart there is one more.
      def regular = @workers.active - [@restarts.extra]

      def cull
        surplus = regular.size - @target
        return unless surplus.positive?

        oldest_first = (regular - [@workers.first]).sort_by { |worker| [worker.started_at, worker.index] }
        oldest_first.reverse! if @config[:worker_culling_strategy] == :youngest
        oldest_first.first(surplus).each do |worker|
          @log.info("- #{worker} terminating")
          retire(worker)
        end
      end

      # In the child.
      def worker(place)
        @in_worker.call
        @workers.each(&:close_orders)
        Worker.new(@ending.config_of_workers, place, app: @app, log: @log, output: @output, master: @master,
                                                     slots: @slots, keeper: @keeper, control: @control)
      end

      # @return [Handle, nil] nil if there is no room for another one with this number
      def fork_worker(index)
        slot = @slots.free(index, @workers.slots) or return
        @forks.fork(Place.new(index, @restarts.phase, slot)).tap { |worker| @workers << worker }
      rescue SystemCallError => e
        @log.error("cannot fork a worker: #{e.message}; the next try is in #{@back_off.fail.round} s")
        @mailbox.post
        nil
      end

      # Ends one, while the others continue. `why`: it is replaced for that reason; nil: it is not.
      def retire(worker, why = nil) = worker.hand_over(within: @ending.patience(at_once: false), why:)

      def note(report)
        worker = @workers[report.pid]
        case report.word
        when :forked then note_fork(report)
        when :not_forked then @workers.awaited(report.number)&.lose
        when :booted then note_boot(worker) if worker
        when :rests then worker&.begin_rest
        when :serves then worker&.end_rest
        end
      end

      # One that comes too late is not awaited any more.
      def note_fork(report)
        worker = @workers.awaited(report.number)
        worker ? worker.forked(report.pid) : Process.kill(:KILL, report.pid)
      rescue Errno::ESRCH
        nil # it has ended
      end

      def note_boot(worker)
        worker.boot
        worker.slot.note(:boot, "#{worker}, phase #{worker.phase}", pid: worker.pid, time: worker.age)
        @log.info("- #{worker} booted in #{worker.age.round(2)}s, phase: #{worker.phase}")
      end

      def note_end(worker)
        text = "#{worker} #{worker.how_it_ended}"
        @log.warn(text) unless worker.stopping?
        worker.tell_end(text, replaced: !@stopping)
        run_hooks(:after_worker_shutdown, worker) if worker.pid
        return unless worker.failed? && !@stopping

        pause = @back_off.fail
        what = worker.booted? ? "fail as soon as they serve" : "do not boot"
        @log.warn("workers #{what}; the next try is in #{pause.round} s") if pause.positive?
      end

      # --- the restart, and the end ---

      def restart_on
        result = @restarts.step
        @booting = true if result == :done
        @on_booted.call(complete: false) if result == :failed
      end

      def tell_booted
        return unless @booting && !@restarts.under_way? && regular.size == @target && regular.all?(&:booted?)

        @booting = false
        @on_booted.call
      end

      def stop_idle
        return unless @idle.wanted? && @idle.over?(@slots.sums, booting: !@workers.all?(&:booted?))

        @log.info("- All workers reached idle timeout")
        stop(at_once: false)
      end

      def begin_stop(at_once:)
        @stopping = true
        @closing.begin(at_once:)
        @workers.each { |worker| worker.stop(at_once:, within: @ending.patience(at_once:)) }
      end

      def begin_hand_over
        @stopping = true
        @closing.hand_over
        @workers.each { |worker| retire(worker) }
      end

      def run_hooks(name, *arguments) = @config.hooks(name).each { |hook| hook.run(@log, *arguments) }
    end
  end
end
