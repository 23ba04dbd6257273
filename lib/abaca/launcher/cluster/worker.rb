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
        def initialize(config, place, app:, log:, output:, master:)
          @config = config
          @app = app
          @log = log
          @output = output
          @index = place.index
          @place = place
          @master = master
          @overdue = Overdue.new { report_overdue }
        end

        # Serves until it is stopped.
        #
        # @param listeners [Listeners]
        # @param mailbox [Mailbox]
        # @param lifeline [Lifeline]
        # @return [Integer] the exit status
        def run(listeners, mailbox, lifeline)
          signals.trap
          mailbox.close_reader
          lifeline.watch { orphaned }
          @place.slot.claim(phase: @place.phase)
          Process.setproctitle(title)
          run_hooks(:before_worker_boot)
          boot(listeners)
          mailbox.report_boot
          @runner.run
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
          @log.release
        end

        private

        def title
          tag = @config[:tag] || File.basename(Dir.pwd)
          "abaca: cluster worker #{@index}: #{@master}#{" [#{tag}]" unless tag.empty?}"
        end

        # A signal that comes before there is a server ends the boot.
        def boot(listeners)
          runner = Single.new(@config, app: @app, log: @log, multiprocess: true, slot: @place.slot, idle_timeout: 0)
          runner.listen(listeners)
          @runner = runner
        end

        def run_hooks(name) = @config[name].each { |hook| hook.run(@log, @index) }

        # A terminal sends INT to all processes, but only the master decides. The others are for the master, too.
        def signals
          nothing = -> {}
          Signals.new("TERM" => -> { @stopped ? halt : stop }, "QUIT" => method(:halt),
                      "HUP" => @output.method(:reopen), Signals::DUMP => method(:dump), "INT" => nothing,
                      "USR1" => nothing, "USR2" => method(:hand_over), "TTIN" => nothing, "TTOU" => nothing,
                      "URG" => nothing, "CHLD" => nothing)
        end

        # While the app loads, without `ensure` blocks: RubyGems makes an error of an exception in `require`.
        def stop
          @stopped ||= :gracefully
          @runner ? stop_runner : exit!(0)
        end

        # As #stop, while others continue with the listeners.
        def hand_over
          @stopped ||= :handed_over
          @runner ? stop_runner : exit!(0)
        end

        def halt
          @stopped = :at_once
          @runner ? stop_runner : exit!(0)
        end

        def stop_runner
          at_once = @stopped == :at_once
          @overdue.give(@runner.patience(at_once:))
          @stopped == :handed_over ? @runner.hand_over : @runner.stop(at_once:)
        end

        def orphaned
          @orphaned = true
          @log.error("worker #{@index}: the master has died; the worker ends")
          @stopped ||= :gracefully
          return stop_runner if @runner

          @log.flush
          exit!(1)
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
