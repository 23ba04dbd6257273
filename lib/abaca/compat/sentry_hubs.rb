# frozen_string_literal: true

module Abaca
  module Compat
    # sentry-ruby (tried with 5.28, 6.6, 7.1 and 7.2) keeps its hub, which has the user, tags and breadcrumbs of a
    # request, in a thread variable: on fibers, reports have those of another request. From 7.0 on it has an isolation
    # level; :fiber, from Ruby 3.2 on, keeps the hub in Fiber[], which the fibers that a request creates inherit. It is
    # set here. Elsewhere the hub is kept in Thread.current[], which belongs to the fiber.
    #
    # The fiber that has initialized Sentry keeps the main hub, so that tags which a hook sets later are in all reports.
    module SentryHubs
      HUB = :abaca_sentry_hub
      private_constant :HUB

      # Sets the level, also if Sentry is initialized later.
      module Level
        def init(&block)
          super do |config|
            block&.call(config)
            config.hub_isolation_level = :fiber
          end
        end

        # Sentry reads the level only in init.
        def abaca_change_level
          hub = get_current_hub
          configuration.hub_isolation_level = @hub_isolation_level = :fiber
          set_current_hub_internal(hub)
        end
      end

      # Replaces methods of the gem.
      module ByFiber
        def init(...) = super.tap { Thread.current[HUB] = get_main_hub }

        def get_current_hub # rubocop:disable Naming/AccessorMethodName
          Thread.current[HUB] || clone_hub_to_current_thread
        end

        def clone_hub_to_current_thread
          Thread.current[HUB] = get_main_hub.clone if initialized?
        end
      end
      private_constant :Level, :ByFiber

      class << self
        def adapt(config, log)
          return if !Compat.fibers?(config) || [Level, ByFiber].any? { |way| ::Sentry.singleton_class <= way }

          levels? ? use_level : use_fibers
          log.info("* Sentry: each request has its own hub, so that reports do not mix users")
        end

        private

        # Before Ruby 3.2, Sentry replaces :fiber by :thread.
        def levels? = RUBY_VERSION >= "3.2" && ::Sentry::Configuration.method_defined?(:hub_isolation_level=)

        def use_level
          ::Sentry.singleton_class.prepend(Level)
          ::Sentry.abaca_change_level if ::Sentry.initialized?
        end

        def use_fibers
          Thread.current[HUB] = ::Sentry.get_current_hub
          ::Sentry.singleton_class.prepend(ByFiber)
        end
      end
    end
  end
end
