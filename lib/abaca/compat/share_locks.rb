# frozen_string_literal: true

module Abaca
  module Compat
    # Rails (7.0 to 8.1; tried with 7.2) keeps its reloader from requests by a lock that counts threads: requests on
    # fibers share one count, the first that ends gives it back for all, and a changed file removes the constants from
    # those that still run. Here the lock counts fibers, as it counts threads elsewhere: the reloader waits until no
    # request is running. The lock only uses Thread.current, so it gets a Thread constant of its own, whose current is
    # the fiber.
    #
    # Ruby before 3.2 has the same fault in Module#autoload: while a file is loaded and waits, other fibers of the
    # thread miss its constant. There, an app that reloads loads all its files at boot and after each change, which
    # the reloader does while nothing else runs.
    module ShareLocks
      # Stands for Thread in the lock.
      module Fibers
        def self.current = Fiber.current
      end
      private_constant :Fibers

      def self.adapt(config, log)
        lock = ::ActiveSupport::Concurrency::ShareLock
        return unless Compat.fibers?(config) && by_thread?(lock)

        lock.const_set(:Thread, Fibers)
        return unless reloads?

        log.info("* Rails reloads: its lock counts fibers, so that no request loses its constants")
        load_at_once if RUBY_VERSION < "3.2"
      end

      def self.load_at_once
        ::Rails.application.reloader.to_prepare { ::Rails.autoloaders.each(&:eager_load) }
        ::Rails.autoloaders.each(&:eager_load)
      end

      # Later ones use the isolation level themselves.
      def self.by_thread?(lock)
        !lock.const_defined?(:Thread, false) && lock.new.instance_variable_defined?(:@exclusive_thread)
      end

      def self.reloads?
        return false unless defined?(::Rails.application) && ::Rails.application

        config = ::Rails.application.config
        config.respond_to?(:reloading_enabled?) ? config.reloading_enabled? : !config.cache_classes
      end
      private_class_method :load_at_once, :by_thread?, :reloads?
    end
  end
end
