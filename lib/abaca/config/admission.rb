# frozen_string_literal: true

module Abaca
  class Config
    # How many requests are admitted, how many wait, and for how long (docs/overload.md): checks these settings.
    module Admission
      # The default number of requests in the app at once, if the kernel allows it. A thousand that wait take some 20
      # MB; beyond that, refusing is better than swamping the server.
      MAX_FIBERS = 1000
      # Requests that wait and are shown in the page.
      MOST_QUEUED = 1024

      class << self
        # @param value [Integer, nil] nil: the default
        # @param ceiling [Integer] what the kernel allows
        # @param warnings [Array<String>] takes a line if that is less
        # @return [Integer]
        def max_fibers(value, ceiling, warnings)
          return [MAX_FIBERS, ceiling].min if value.nil?
          return value if value <= ceiling

          warnings << "max_fibers #{value} is more than vm.max_map_count bears; it is #{ceiling} now"
          ceiling
        end

        # Fibers for requests, including those that occupy no place while they wait for their clients.
        #
        # @param config [Config]
        # @return [Integer]
        def most_fibers(config)
          places = config[:max_fibers]
          return places if places == 1

          most = [places, Config.max_fibers_ceiling].max
          (places + config[:max_slow_clients]).clamp(places, most)
        end

        # Requests that the page has to show at most.
        #
        # @param config [Config]
        # @return [Hash{Symbol => Integer}] `rows` in the app, and `queued` that wait
        def rows(config)
          threads = Modes.threads?(config) ? config[:threads].last + config[:max_slow_clients] : 0
          { rows: [most_fibers(config) + threads, Page::MOST_ROWS].min, queued: [config[:max_queue], MOST_QUEUED].min }
        end

        # @param list [Hash, Array<Array>] seconds by pattern of paths; the first that matches counts
        # @return [Array<Array(String, Integer)>]
        # @raise [ConfigError]
        def request_timeouts(list)
          list.to_a.map do |pattern, seconds|
            [path(:request_timeout, pattern), Values.check_limit(:request_timeout, seconds)].freeze
          end.freeze
        end

        # @param patterns [Array<String>] of paths
        # @return [Array<String>]
        # @raise [ConfigError]
        def stream_bodies(patterns) = Array(patterns).map { |pattern| path(:stream_bodies, pattern) }.freeze

        # @param patterns [Array<String>] of paths
        # @return [Array<String>]
        # @raise [ConfigError]
        def metrics_ignore(patterns) = Array(patterns).map { |pattern| path(:metrics_ignore, pattern) }.freeze

        # The engine's options for a configuration.
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

        def path(name, pattern)
          return pattern.dup.freeze if Values.path_pattern?(pattern)

          raise ConfigError, "#{name}: a path is needed, such as \"/reports/*\", not #{pattern.inspect}"
        end
      end
    end
  end
end
