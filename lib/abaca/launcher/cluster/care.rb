# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # Finds workers that take too long: to boot, to turn, or to end. They are killed; one that hangs is first asked
      # what in.
      class Care
        # Seconds for the answer.
        LAST_WORDS = 1
        private_constant :LAST_WORDS

        # @param config [Config]
        # @param log [Log]
        def initialize(config, log)
          @boot = config[:worker_boot_timeout]
          @turn = config[:worker_timeout]
          @log = log
        end

        # @param worker [Handle]
        def look_after(worker)
          if worker.overdue? then worker.hung? && beats?(worker) ? worker.forgive : kill(worker)
          elsif worker.stopping? || worker.hung? then nil
          elsif !worker.booted? then give_up(worker, "boot", @boot) if worker.age > @boot
          elsif !beats?(worker) then ask(worker)
          end
        end

        private

        def beats?(worker) = worker.silence <= @turn

        def kill(worker)
          @log.error("#{worker} does not end, and is killed") if worker.stopping?
          worker.kill(why: :timeout)
        end

        def ask(worker)
          report(worker, "check in", @turn)
          worker.hang(LAST_WORDS)
          worker.signal(Signals::DUMP)
        end

        def give_up(worker, what, seconds)
          report(worker, what, seconds)
          worker.kill(why: :timeout)
        end

        def report(worker, what, seconds)
          @log.error("Terminating timed out worker (Worker #{worker.index} failed to #{what} within " \
                     "#{seconds.to_s.delete_suffix('.0')} seconds): #{worker.pid}")
        end
      end
    end
  end
end
