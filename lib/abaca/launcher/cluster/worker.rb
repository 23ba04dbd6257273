# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # A worker: what runs in the forked child. It loads the app, unless the master has, serves on the master's
      # listeners, and ends when it is told to or when the master has ended.
      class Worker
        # @param config [Config] of the server
        # @param place [Place]
        # @param app [#call, nil] in place of the rackup file
        # @param log [Log]
        # @param output [Output]
        # @param master [Integer] the master's process
        # @param slots [Slots]
        # @param keeper [TLS::Keeper, nil] has the certificates
        # @param control [Control, nil] has errands for this process
        def initialize(config, place, app:, log:, output:, master:, slots:, keeper: nil, control: nil) # rubocop:disable Metrics/ParameterLists -- what a process is made of
          @config = config
          @app = app
          @log = log
          @output = output
          @index = place.index
          @place = place
          @master = master
          @slots = slots
          @keeper = keeper
          @control = control
          @overdue = Overdue.new { report_overdue }
        end

        # Serves until it is stopped.
        #
        # @param listeners [Listeners]
        # @param mailbox [Mailbox]
        # @param lifeline [Lifeline]
        # @return [Integer] the exit status
        def run(listeners, mailbox, lifeline)
          @listeners = listeners
          @mailbox = mailbox
          @lifeline = lifeline
          start
          serve(:booted)
          serve(:serves) while @rests && !@stopped && refork
          run_hooks(:before_worker_shutdown)
          @orphaned ? 1 : 0
        rescue ConfigError => e
          @log.error("worker #{@index} cannot start: #{e.message}")
          1
        rescue SystemExit, SignalException
          raise
        rescue Exception => e # rubocop:disable Lint/RescueException -- nobody else says which worker it was
          @log.failure("worker #{@index} has failed", e)
          1
        ensure
          @overdue.cancel
          @log.close
        end

        private

        # Sets the title, and `$0` as it is in Puma's workers; while the app loads, `$0` is the master's.
        def take_name(name = "puma: #{title}") = Title.set("abaca: #{title}", name)

        def title = "cluster worker #{@index}: #{@master}#{Title.tag(@config)}"

        def load_app
          take_name("puma")
          App.load(@config, @log).tap { take_name }
        end

        def start
          @overdue.start
          Signals.new.trap(actions)
          @mailbox.close_reader
          @lifeline.watch { orphaned }
          @place.slot.claim(phase: @place.phase)
          take_name
          PrunedBundle.enter(@config, @log) if @config[:prune_bundler]
          prepare_reforks if @place.orders
          run_hooks(:before_worker_boot)
        end

        # A signal that comes before there is a server ends the boot.
        def serve(report)
          @app ||= load_app
          runner = Single.new(@config, app: @app, log: @log, multiprocess: true, slot: @place.slot, idle_timeout: 0)
          runner.listen(@spare ? @spare.copy : @listeners)
          runner.follow(@keeper) if @keeper
          @errands = @control&.errands(@place.slot, @log, runner.server)
          @runner = runner
          stop_runner if @stopped # which a worker that reforks hears before it has a server again
          @mailbox.report(report)
          @fork_server&.watch { rest }
          @runner.run
        end

        # The listeners are needed for more than one server.
        def prepare_reforks
          @spare = @listeners
          @fork_server = ForkServer.new(@config, @log, @place, master: @master, mailbox: @mailbox, slots: @slots)
        end

        # Has the server end, while others continue with the listeners.
        def rest
          @rests = true
          @overdue.give(@runner.patience(at_once: false))
          @runner.hand_over
        end

        # Between two servers. Returns whether the next one follows.
        def refork
          @reforks = true
          @errands&.close
          @runner = nil
          @rests = false
          @overdue.give(nil)
          run_hooks(:before_refork, nil)
          WarmUp.age
          phase = @fork_server.run { |place| child(place) } or return false
          run_hooks(:after_refork, nil)
          @place.slot.claim(phase: @place.phase = phase)
          true
        end

        # In a process forked from this one.
        def child(place)
          @overdue.forget
          Worker.new(@config, place, app: @app, log: @log, output: @output, master: @master, slots: @slots,
                                     keeper: @keeper, control: @control)
                .run(@spare, @mailbox, @lifeline)
        end

        def run_hooks(name, given = @index) = @config.hooks(name).each { |hook| hook.run(@log, given) }

        # A terminal sends INT to all processes, but only the master decides. The others are for the master, too.
        def actions
          nothing = -> {}
          { "TERM" => -> { @stopped ? halt : stop }, "QUIT" => method(:halt), "HUP" => @output.method(:reopen),
            Signals::DUMP => method(:dump), "INT" => nothing, "USR1" => nothing, "USR2" => method(:hand_over),
            "TTIN" => nothing, "TTOU" => nothing, "URG" => nothing, "CHLD" => nothing }
        end

        # While the app loads, without `ensure` blocks: RubyGems makes an error of an exception in `require`.
        def stop
          @stopped ||= :gracefully
          obey
        end

        # As #stop, while others continue with the listeners.
        def hand_over
          @stopped ||= :handed_over
          obey
        end

        def halt
          @stopped = :at_once
          obey
        end

        # Ends what there is.
        def obey(status = 0)
          if @runner then stop_runner
          elsif @reforks then @fork_server.end
          else
            @log.flush
            exit!(status)
          end
        end

        # The kernel must not take connections for a server that will not come.
        def stop_runner
          @spare&.close
          at_once = @stopped == :at_once
          @overdue.give(@runner.patience(at_once:))
          @stopped == :handed_over ? @runner.hand_over : @runner.stop(at_once:)
        end

        def orphaned
          @orphaned = true
          @log.error("worker #{@index}: the master has died; the worker ends")
          @stopped ||= :gracefully
          obey(1)
        end

        def dump
          @log.dump(@runner.server.dump) if @runner
        rescue StandardError => e
          @log.error("the dump failed: #{e.message} (#{e.class})")
        end

        def report_overdue
          @log.error("worker #{@index}: the server does not end; the process ends without it")
          dump
          @log.flush
        end
      end
    end
  end
end
