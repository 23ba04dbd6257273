# frozen_string_literal: true

module Abaca
  # Makes gems that were written for threads behave on fibers as they do on threads. Each has an adapter, a file in
  # compat/, which is loaded only when its gem is. A hazard that corrupts data is never a mere warning: the adapter
  # makes it safe and logs that, or refuses to serve and says what to do (docs/fiber_safety.md).
  #
  # An adapter is a module of the name below with one method,
  #
  #   adapt(config, log)
  #
  # which is called when a server is created and again when it runs, so its work may already be done. It raises
  # ConfigError to refuse. `Compat.fibers?(config)` tells whether a request can run beside others on its thread.
  module Compat
    # The adapters by the constant that shows that their gem is loaded.
    ADAPTERS = {
      "ActiveRecord" => :ActiveRecordPools,
      "ActiveRecord::Base" => :IsolationLevel,
      "ActiveSupport::IsolatedExecutionState" => :IsolationLevel,
      "ActiveSupport::Concurrency::ShareLock" => :ShareLocks,
      "ConnectionPool::TimedStack" => :ConnectionPools,
      "Sequel::ConnectionPool" => :SequelWaits,
      "SQLite3::Database" => :SqliteWaits,
      "ActiveSupport" => :SqliteWaits,
      "ActionController" => :LiveStates,
      "Async::Scheduler" => :AsyncBlocks,
      "Chewy::Strategy" => :ChewyCurrent,
      "GraphQL" => :GraphqlDataloaders,
      "I18n::Base" => :I18nConfig,
      "Mongoid::Threaded" => :MongoidSessions,
      "Sequel::Database" => :SequelPools,
      "Sentry::Hub" => :SentryHubs,
      "OpenTelemetry::SDK::Trace::Span" => :OpenTelemetrySpans,
      "Rack::Timeout::Scheduler::Timeout" => :RackTimeouts
    }.freeze
    private_constant :ADAPTERS

    ADAPTERS.each_value do |name|
      autoload name, File.expand_path("compat/#{name.to_s.gsub(/(?<=.)(?=[A-Z])/, "_").downcase}", __dir__)
    end

    class << self
      # Adapts what is loaded.
      #
      # @param config [Config] of a server
      # @param log [Log]
      # @return [nil]
      # @raise [ConfigError] when a gem would corrupt data in this configuration
      def adapt(config, log)
        ADAPTERS.each { |constant, name| const_get(name).adapt(config, log) if loaded?(constant) }
        nil
      end

      # Loads the adapters of what is loaded: before a fork, so that its children share them.
      #
      # @return [nil]
      def prepare
        ADAPTERS.each { |constant, name| const_get(name) if loaded?(constant) }
        nil
      end

      # @param config [Config]
      # @return [Boolean]
      def fibers?(config) = !Config::Modes.threads_lead?(config)

      # Whether fibers of a thread share what the block returns in one of them.
      #
      # @yieldreturn [Object]
      # @return [Boolean]
      def shared?(&block)
        first, second = Array.new(2) { Fiber.new(&block).resume }
        first.equal?(second)
      end

      # Whether a constant is defined; loads nothing.
      #
      # @param path [String]
      # @return [Boolean]
      def loaded?(path)
        path.split("::").inject(Object) do |parent, name|
          return false if !parent.const_defined?(name, false) || parent.autoload?(name, false)

          parent.const_get(name, false)
        end
        true
      end
    end
  end
end
