# frozen_string_literal: true

module Abaca
  module Compat
    # Sequel (all of 5.x; tried with 5.110) keys its pools of connections, and with them its transactions, by
    # Sequel.current, which is the thread: on fibers, concurrent requests share one connection and end each other's
    # transactions. Its own extension fiber_concurrency makes the key the fiber. Pools ask for the key at each use, so
    # that works for databases that are already connected. No key helps a pool with one connection for everybody
    # (single_threaded): it is refused.
    module SequelPools
      SINGLE = %i[single sharded_single].freeze
      private_constant :SINGLE

      def self.adapt(config, log)
        return unless Compat.fibers?(config)

        refuse_single
        return if by_fiber?

        use_fibers
        log.info("* Sequel: with its extension fiber_concurrency, each request has a connection of its own")
      end

      def self.by_fiber? = ::Sequel.respond_to?(:current) && ::Sequel.current.is_a?(Fiber)

      # Old versions do not have it.
      def self.use_fibers
        ::Sequel.extension(:fiber_concurrency)
      rescue LoadError
        raise ConfigError, "Sequel #{::Sequel.version} gives its connections to threads, and would mix the " \
                           "transactions of requests on fibers: update it (it needs the extension " \
                           "fiber_concurrency), or serve with `mode :thread'"
      end

      def self.refuse_single
        found = ::Sequel::DATABASES.find { |database| SINGLE.include?(database.pool.pool_type) } or return
        raise ConfigError, "Sequel has a database (#{found.adapter_scheme}) with one connection for everybody, which " \
                           "requests on fibers would share in their transactions: connect without " \
                           "`single_threaded: true'"
      end
      private_class_method :by_fiber?, :use_fibers, :refuse_single
    end
  end
end
