# frozen_string_literal: true

module Abaca
  class Config
    # How many requests are let in, how many wait, and which time they have (docs/overload.md): checks the
    # settings that say so.
    module Admission
      # Requests in the app at once, unless somebody says otherwise and where the kernel bears it. A thousand that
      # wait take some 20 MB; who has more at once is better told than swamped.
      MAX_FIBERS = 1000
      # As many as the kernel's queue of connections holds, where they would wait otherwise. A server that
      # answers a hundred in a second is done with the last of them when `queue_timeout` is over.
      MAX_QUEUE = 1024
      # A thousand bodies of the length that each may have here before its request is taken.
      MAX_BODY_MEMORY_TOTAL = 64 * 1024 * 1024

      class << self
        # @param value [Integer, nil] nil: the default
        # @param ceiling [Integer] what the kernel bears
        # @param warnings [Array<String>] takes a line when that is less
        # @return [Integer]
        # @raise [ConfigError] when the value is no number of fibers
        def max_fibers(value, ceiling, warnings)
          return [MAX_FIBERS, ceiling].min if value.nil?

          number = fibers(value)
          return number if number <= ceiling

          warnings << "max_fibers #{number} is more than vm.max_map_count bears; it is #{ceiling} now"
          ceiling
        end

        # Fibers for requests, with those that have left their place while they wait for their clients.
        #
        # @param config [Config]
        # @return [Integer]
        def most_fibers(config)
          places = config[:max_fibers]
          return places if places == 1

          most = [places, Config.max_fibers_ceiling].max
          (places + config[:max_slow_clients]).clamp(places, most)
        end

        # @param value [Integer]
        # @return [Integer]
        # @raise [ConfigError] when it is no number of fibers
        def fibers(value)
          number = Config.whole(value)
          return number if number&.positive?

          raise ConfigError, "max_fibers: a number of fibers is needed, not #{value.inspect}"
        end

        # @param value [Integer]
        # @return [Integer]
        # @raise [ConfigError]
        def max_queue(value) = number(:max_queue, value, "requests", (2**32) - 1)

        # @param value [Integer]
        # @return [Integer]
        # @raise [ConfigError]
        def max_body_memory_total(value) = number(:max_body_memory_total, value, "octets", (2**63) - 1)

        # @param list [Hash, Array<Array>] seconds by pattern of paths; the first that matches counts
        # @return [Array<Array(String, Integer)>]
        # @raise [ConfigError]
        def request_timeouts(list)
          list.to_a.map do |pattern, seconds|
            [path(:request_timeout, pattern), Config.check_limit(:request_timeout, seconds)].freeze
          end.freeze
        end

        # @param patterns [Array<String>] of paths
        # @return [Array<String>]
        # @raise [ConfigError]
        def stream_bodies(patterns) = Array(patterns).map { |pattern| path(:stream_bodies, pattern) }.freeze

        # What the engine is told for a configuration.
        #
        # @param config [Config]
        # @return [Hash{Symbol => Object}]
        def engine_options(config)
          names = %i[max_fibers max_queue max_body_memory_total request_timeouts]
          settings = names.to_h { |name| [name, config[name]] }
          settings[:stream_bodies] = config[:stream_bodies].map { |pattern| [true, pattern] }
          Modes.threads_lead?(config) ? settings.merge(max_fibers: config[:threads].last) : settings
        end

        private

        def number(name, value, unit, most)
          number = Config.whole(value)
          return number if number&.between?(0, most)

          raise ConfigError, "#{name}: a number of #{unit} is needed, 0 or more, not #{value.inspect}"
        end

        def path(name, pattern)
          return pattern.dup.freeze if Config.path_pattern?(pattern)

          raise ConfigError, "#{name}: a path is needed, such as \"/reports/*\", not #{pattern.inspect}"
        end
      end
    end
  end
end
