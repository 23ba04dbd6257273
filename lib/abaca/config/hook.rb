# frozen_string_literal: true

module Abaca
  class Config
    # What hooks with a key keep: one Hash for each key and process. A forked child begins with empty ones.
    class HookData
      # @param key [String, Symbol]
      # @return [Hash]
      def [](key)
        unless @pid == Process.pid
          @pid = Process.pid
          @hashes = {}
        end
        @hashes[key] ||= {}
      end
    end

    # A block of a configuration file that is called at one point in the server's life.
    class Hook
      # @return [Symbol] the point: `:before_worker_boot`, say
      attr_reader :name
      # @return [String, Symbol, nil] hooks with the same one share a Hash
      attr_reader :key
      # @return [String, nil] file and line of the block
      attr_reader :place

      # @param block [#call]
      # @param name [Symbol]
      # @param key [String, Symbol, nil]
      # @param data [HookData] of all hooks of a configuration
      # @raise [ConfigError] for another kind of key, and for what cannot be called
      def initialize(block, name:, key: nil, data: HookData.new)
        raise ConfigError, "#{name}: #{block.class} has no call" unless block.respond_to?(:call)

        unless [String, Symbol, NilClass].include?(key.class)
          raise ConfigError, "#{name}: a key is a String or a Symbol, not #{key.inspect}"
        end

        @block = block
        @name = name
        @key = key
        @data = data
        # Some Rubies add columns.
        @place = block.source_location&.first(2)&.join(":") if block.respond_to?(:source_location)
        freeze
      end

      # @param arguments [Array] of this point; with a key, the Hash follows them
      # @return [Object] what the block returns
      def call(*arguments) = @key ? @block.call(*arguments, @data[@key]) : @block.call(*arguments)

      # The same; what the block raises is logged, and does not stop the server, unless it asks for the end.
      #
      # @param log [Log]
      # @return [nil]
      def run(log, *arguments)
        demand(*arguments)
      rescue ConfigError => e
        log.warn(e.message)
        nil
      end

      # The same, where the server ends with what the block raises.
      #
      # @return [nil]
      # @raise [ConfigError] in one line; its cause is what the block raised
      def demand(*arguments)
        call(*arguments)
        nil
      rescue SystemExit, SignalException
        raise
      rescue Exception => e # rubocop:disable Lint/RescueException -- an app's may descend from it
        raise ConfigError, "hook #{@name}#{" at #{@place}" if @place} failed: #{e.message} (#{e.class})"
      end
    end
  end
end
