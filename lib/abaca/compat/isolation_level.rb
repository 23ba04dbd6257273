# frozen_string_literal: true

module Abaca
  module Compat
    # ActiveSupport (7.0 and later) keeps CurrentAttributes, and Active Record its connections, for a thread or for a
    # fiber, as its isolation level says; :thread is the default. On fibers, concurrent requests then share one
    # connection, and commit and roll back each other's work. The Railtie sets :fiber while the app boots. Where that
    # has not happened (a server in a program, a level that the app has set itself), it is set here, which
    # ActiveSupport allows at any time. Active Record before 7.0 has no level: it is refused.
    module IsolationLevel
      def self.adapt(config, log)
        return unless Compat.fibers?(config)

        refuse unless defined?(::ActiveSupport::IsolatedExecutionState) # which may be loaded when it is needed
        state = ::ActiveSupport::IsolatedExecutionState
        return if state.isolation_level == :fiber

        state.isolation_level = :fiber
        log.info("* ActiveSupport: the isolation level is :fiber, so that requests share neither CurrentAttributes " \
                 "nor connections")
      end

      def self.refuse
        raise ConfigError, "Active Record before 7.0 gives its connections to threads, and would mix the " \
                           "transactions of requests on fibers: update Rails, or serve with `mode :thread'"
      end
      private_class_method :refuse
    end
  end
end
