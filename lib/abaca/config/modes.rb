# frozen_string_literal: true

module Abaca
  class Config
    # What requests run on: fibers, threads, or either by the path (docs/modes.md).
    module Modes
      NAMES = %i[fiber thread].freeze
      # The most threads that are sensible to ask for: Ruby gives each a stack and a native thread.
      MOST_THREADS = 32_768

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
          name = value.to_s.to_sym
          return name if NAMES.include?(name)

          raise ConfigError, "mode: #{NAMES.map(&:inspect).join(' or ')} is needed, not #{value.inspect}"
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
            unless %i[fiber thread].include?(mode) && pattern.is_a?(String) && pattern.start_with?("/", "*")
              raise ConfigError, "routes: a pattern like \"/reports/*\" is needed, not #{pattern.inspect}"
            end

            [mode, pattern.dup.freeze].freeze
          end.freeze
        end

        # @param config [Config]
        # @return [Boolean] whether no request can run on a fiber, so that threads turn the engine
        def threads_lead?(config)
          config[:mode] == :thread && config[:routes].none? { |mode, _| mode == :fiber }
        end

        # @param config [Config]
        # @return [Boolean] whether any request can run on a thread
        def threads?(config)
          config[:mode] != :fiber || config[:routes].any? { |mode, _| mode == :thread }
        end

        # @param config [Config]
        # @return [Hash] for Engine.new
        def engine_options(config)
          mode = threads_lead?(config) ? :thread : :fiber
          return { mode: } unless threads?(config)

          { mode:, default_mode: config[:mode], threads: config[:threads], max_waiting: config[:max_queue],
            clean_thread_locals: config[:clean_thread_locals],
            max_body_memory_total: config[:max_body_memory_total],
            routes: config[:routes].map { |name, pattern| [name == :thread, pattern] } }
        end
      end
    end
  end
end
