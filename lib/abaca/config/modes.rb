# frozen_string_literal: true

module Abaca
  class Config
    # What requests run on: fibers, threads, either by path, or either by behaviour (docs/modes.md).
    module Modes
      NAMES = %i[fiber thread hybrid].freeze
      # What of hybrid routes can be set.
      HYBRID = %i[hybrid_threshold hybrid_requests].freeze
      # The most threads that make sense: each has a stack and a native thread.
      MOST_THREADS = 32_768

      # The routes of `routes`: the block calls these methods.
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
        # @param value [Array, String, Integer] the least and the most; "0:5" as on the command line
        # @return [Array(Integer, Integer)]
        # @raise [ConfigError]
        def threads(value)
          pair = value.is_a?(String) ? value.split(":", 2) : Array(value)
          least, most = pair.map { |number| Values.whole(number) }
          most ||= least
          unless least && most && least >= 0 && most >= 1 && least <= most && most <= MOST_THREADS
            raise ConfigError, "threads: the least and the most are needed, 0 and 5 say, not #{pair.inspect}"
          end

          [least, most].freeze
        end

        # @param list [Array<Array(Symbol, String)>]
        # @return [Array<Array(Symbol, String)>]
        # @raise [ConfigError] for an invalid mode or pattern
        def routes(list)
          list.map do |mode, pattern|
            unless NAMES.include?(mode) && Values.path_pattern?(pattern)
              raise ConfigError, "routes: a pattern like \"/reports/*\" is needed, not #{pattern.inspect}"
            end

            [mode, pattern.dup.freeze].freeze
          end.freeze
        end

        # @param config [Config]
        # @return [Boolean] whether no request can run on a fiber, so that threads turn the engine
        def threads_lead?(config) = in_play(config) == [:thread]

        # @param config [Config]
        # @return [Boolean] whether any request can run on a thread
        def threads?(config) = in_play(config) != [:fiber]

        # @param config [Config]
        # @return [Integer] requests that may be in the app at once
        def places(config)
          (threads_lead?(config) ? 0 : config[:max_fibers]) + (threads?(config) ? config[:threads].last : 0)
        end

        # @param config [Config]
        # @return [Boolean] whether behaviour decides for any request
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

        # Everything that requests can run on, each once.
        def in_play(config) = [config[:mode], *config[:routes].map(&:first)].uniq
      end
    end
  end
end
