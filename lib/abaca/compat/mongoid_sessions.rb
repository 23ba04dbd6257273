# frozen_string_literal: true

module Abaca
  module Compat
    # Mongoid 9.0, and 9.1 with the isolation level :thread or before Ruby 3.2, keep sessions, and with them
    # transactions, in a thread variable: on fibers, concurrent requests write in each other's. 9.1 has the level
    # :fiber, which is set here; where it is unavailable, fibers are refused. (8.x keeps them in Thread.current[],
    # which belongs to the fiber.)
    module MongoidSessions
      PROBE = "abaca-probe"
      private_constant :PROBE

      def self.adapt(config, log)
        return unless Compat.fibers?(config) && by_thread?
        raise ConfigError, advice unless ask_for_fibers && !by_thread?

        log.info("* Mongoid: the isolation level is :fiber, so that requests do not share sessions")
      end

      # Whether fibers share what one of them keeps.
      def self.by_thread?
        Fiber.new { ::Mongoid::Threaded.set(PROBE, true) }.resume
        found = Fiber.new { ::Mongoid::Threaded.get(PROBE) }.resume
        Fiber.new { ::Mongoid::Threaded.set(PROBE, nil) }.resume
        !found.nil?
      end

      def self.ask_for_fibers
        return false unless ::Mongoid::Config.respond_to?(:isolation_level=)

        ::Mongoid::Config.isolation_level = :fiber
        true
      rescue StandardError
        false # this Ruby cannot
      end

      def self.advice
        "Mongoid #{::Mongoid::VERSION} keeps its sessions by thread, and would mix the transactions of requests on " \
          "fibers: use Mongoid 9.1 on Ruby 3.2 or later, or serve with `mode :thread'"
      end
      private_class_method :by_thread?, :ask_for_fibers, :advice
    end
  end
end
