# frozen_string_literal: true

module Abaca
  class Config
    # What requests run on: fibers, threads, either by the path, or either by how they behave
    # (docs/modes.md).
    module Modes
      NAMES = %i[fiber thread hybrid].freeze
      DEFAULTS = { hybrid_requests: 20, hybrid_threshold: 50 }.freeze
      # The most threads that are sensible to ask for: Ruby gives each a stack and a native thread.
      MOST_THREADS = 32_768
      # In milliseconds: nothing is shorter than that, and who waits longer for others has given up.
      SHORTEST_THRESHOLD = 0.001
      LONGEST_THRESHOLD = 60_000
      # So many requests of a route the native part remembers.
      MOST_REQUESTS = 128

      # What is set with `routes`: the methods are called in the block.
      class Routes
        # @return [Array<Array(Symbol, String)>] mode and pattern, in the order of the calls
        attr_reader :list

        def initialize
          @list = []
        end

        # Requests for these paths run on threads. `*` stands for anything, slashes included.
        #
        # @param patterns [Array<String>] "/reports/*", say
        def thread(*patterns) = add(:thread, patterns)

        # Requests for these paths run on fibers.
        #
        # @param patterns [Array<String>]
        def fiber(*patterns) = add(:fiber, patterns)

        # Requests for these paths run on fibers, and on threads while they keep the loop too often. Each
        # pattern is judged as a whole.
        #
        # @param patterns [Array<String>]
        def hybrid(*patterns) = add(:hybrid, patterns)

        private

        def add(mode, patterns)
          raise ArgumentError, "#{mode}: a pattern is needed" if patterns.empty?

          patterns.each { |pattern| @list << [mode, pattern] }
        end
      end

      class << self
        # @param value [Symbol, String]
        # @return [Symbol]
        # @raise [ConfigError]
        def mode(value)
          name = Config.one_of(NAMES, value)
          return name if name

          raise ConfigError, "mode: #{NAMES[..-2].map(&:inspect).join(', ')} or #{NAMES.last.inspect} is needed, " \
                             "not #{value.inspect}"
        end

        # @param value [Array] the least and the most
        # @return [Array(Integer, Integer)]
        # @raise [ConfigError]
        def threads(value)
          least, most = Array(value).map { |number| Config.whole(number) }
          most ||= least
          unless least && most && least >= 0 && most >= 1 && least <= most && most <= MOST_THREADS
            raise ConfigError, "threads: the least and the most are needed, 0 and 5 say, not #{Array(value).inspect}"
          end

          [least, most].freeze
        end

        # @param list [Array<Array(Symbol, String)>]
        # @return [Array<Array(Symbol, String)>]
        # @raise [ConfigError] for a mode or a pattern that is none
        def routes(list)
          list.map do |mode, pattern|
            unless NAMES.include?(mode) && Config.path_pattern?(pattern)
              raise ConfigError, "routes: a pattern like \"/reports/*\" is needed, not #{pattern.inspect}"
            end

            [mode, pattern.dup.freeze].freeze
          end.freeze
        end

        # @param value [Numeric, String] milliseconds
        # @return [Float]
        # @raise [ConfigError]
        def hybrid_threshold(value)
          number = Float(value, exception: false)
          return number if number&.finite? && number.between?(SHORTEST_THRESHOLD, LONGEST_THRESHOLD)

          raise ConfigError, "hybrid_threshold: milliseconds are needed, #{SHORTEST_THRESHOLD} to " \
                             "#{LONGEST_THRESHOLD}, not #{value.inspect}"
        end

        # @param value [Integer, String]
        # @return [Integer]
        # @raise [ConfigError]
        def hybrid_requests(value)
          number = Integer(value, exception: false) unless value.is_a?(Float)
          return number if number&.between?(1, MOST_REQUESTS)

          raise ConfigError, "hybrid_requests: a number of requests is needed, 1 to #{MOST_REQUESTS}, " \
                             "not #{value.inspect}"
        end

        # @param config [Config]
        # @return [Boolean] whether no request can run on a fiber, so that threads turn the engine
        def threads_lead?(config) = in_play(config) == [:thread]

        # @param config [Config]
        # @return [Boolean] whether any request can run on a thread
        def threads?(config) = in_play(config) != [:fiber]

        # @param config [Config]
        # @return [Boolean] whether any request's behaviour decides
        def hybrid?(config) = in_play(config).include?(:hybrid)

        # @param config [Config]
        # @return [Hash] for Engine.new
        def engine_options(config)
          mode = threads_lead?(config) ? :thread : :fiber
          return { mode: } unless threads?(config)

          options = { mode:, default_mode: config[:mode], threads: config[:threads], max_waiting: config[:max_queue],
                      clean_thread_locals: config[:clean_thread_locals], routes: config[:routes] }
          return options unless hybrid?(config)

          options.merge(hybrid_threshold: config[:hybrid_threshold] / 1000, hybrid_requests: config[:hybrid_requests])
        end

        private

        # What requests can run on, each once.
        def in_play(config) = [config[:mode], *config[:routes].map(&:first)].uniq
      end
    end
  end
end
