# frozen_string_literal: true

module Abaca
  class Config
    # What Puma would do with a configuration, or Abaca elsewhere, and is not done here: a line of warning for each.
    module NotDone
      # Settings that need a part of the platform (Platform::PARTS).
      NEEDS = { fork_worker: :subreaper, worker_max_memory: :proc }.freeze
      # Hooks that are not called without threads for requests.
      OF_THREADS = %i[before_thread_start before_thread_exit].freeze
      private_constant :NEEDS, :OF_THREADS

      class << self
        # @param config [Config]
        # @return [Array<String>]
        def warnings(config)
          hooks(config) + plugins(config) + redirects(config) + lacking(config) + [
            *single_worker(config),
            *setting(config, :gvl_wait_target, "`stall_after' says who gets Ruby's lock when, 0 leaves it to Ruby"),
            *(setting(config, :fork_worker, "there are no other workers") if config[:workers] < 2),
            *pruned(config)
          ]
        end

        # Most files of Puma's set `threads`, so this is not worth a line at each start.
        #
        # @param config [Config]
        # @return [Array<String>]
        def remarks(config)
          return [] if Modes.threads?(config) || config[:threads] == DEFAULTS[:threads]

          [setting(config, :threads, "requests run on fibers (docs/modes.md)")]
        end

        private

        def hooks(config)
          never = config[:silence_fork_callback_warning] ? [] : hooks_of_workers(config)
          return never if Modes.threads?(config)

          never + uncalled(config, OF_THREADS, "no request runs on a thread")
        end

        def hooks_of_workers(config)
          names = SETTINGS.values.select(&:hook_of_workers?).map(&:name)
          return uncalled(config, names, "there are no workers") if config[:workers].zero?

          config.reforks? ? [] : uncalled(config, %i[before_refork after_refork], "there is no fork_worker")
        end

        def uncalled(config, names, why)
          names.flat_map { |name| config[name] }.map do |hook|
            [hook.place, "`#{hook.name}' is not called: #{why}"].compact.join(": ")
          end
        end

        def plugins(config) = config.plugins.troubles.values_at(*config[:plugins]).compact

        def lacking(config)
          needs = NEEDS.reject { |_, part| Platform.here.has?(part) }
          needs.filter_map { |name, part| setting(config, name, Platform.here.lack(part)) }
        end

        # Only hosts that are known are sent to https.
        def redirects(config)
          return [] if config.binds.any?(&:tls)

          lost = config.binds.select { |bind| bind.options[:redirect] && bind.options[:redirect_hosts].to_a.empty? }
          lost.map do |bind|
            [bind.place, "#{bind}: redirect answers 421 to all: there is no ssl:// place; name hosts in redirect_hosts"]
              .compact.join(": ")
          end
        end

        def single_worker(config)
          return if config[:workers] != 1 || config[:silence_single_worker_warning]

          line(config, :workers, "workers 1: one worker and a master take more memory than `workers 0', one process")
        end

        def pruned(config)
          why = config[:workers].zero? ? "there are no workers" : "the app is preloaded"
          setting(config, :prune_bundler, why) unless PrunedBundle.wanted?(config)
        end

        def setting(config, name, why)
          line(config, name, "`#{name}' has no effect: #{why}") if config[name]
        end

        def line(config, name, text) = [config.place(name), text].compact.join(": ")
      end
    end
  end
end
