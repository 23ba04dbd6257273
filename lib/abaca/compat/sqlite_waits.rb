# frozen_string_literal: true

module Abaca
  module Compat
    # sqlite3 (tried with 1.7, 2.8 and 2.10): with busy_timeout, SQLite itself waits for another connection's lock, and
    # keeps Ruby's: no fiber or thread goes on meanwhile, so whoever holds the lock and waits cannot give it back.
    # Here a handler in Ruby waits, as busy_handler_timeout (from 2.0 on, with Rails 8) does: fibers and threads go on.
    #
    # What is raised in such a handler, above all a deadline, would leave SQLite half way, with its statement in
    # progress and its own lock taken. Here the handler ends the wait, SQLite gives up as when the time is over, and
    # then it is raised.
    module SqliteWaits
      PAUSE = 0.001
      INTERRUPT = :abaca_sqlite_interrupt # belongs to the fiber
      private_constant :PAUSE, :INTERRUPT

      def self.adapt(_config, _log)
        return use_handlers if Compat.loaded?("SQLite3::Database")
        return unless ::ActiveSupport.respond_to?(:on_load)

        # Active Record loads the gem when it first connects.
        ::ActiveSupport.on_load(:active_record_sqlite3adapter) { SqliteWaits.use_handlers }
        nil
      end

      # Adapts the gem, once.
      def self.use_handlers
        return if ::SQLite3::Database <= Database

        ::SQLite3::Database.prepend(Database)
        ::SQLite3::Statement.prepend(Statement)
        ::SQLite3::Backup.prepend(Backup)
        adapt_open_ones
      end

      # Connections of the time before, for instance that of Sequel.connect.
      def self.adapt_open_ones
        ::ObjectSpace.each_object(::SQLite3::Database).reject(&:closed?).each do |database|
          milliseconds = database.get_first_value("PRAGMA busy_timeout").to_i # 0 with a handler
          database.busy_timeout = milliseconds if milliseconds.positive?
        end
        nil
      end

      # Raises what has interrupted a handler.
      def self.pass_on
        interrupt = Thread.current[INTERRUPT] or return
        Thread.current[INTERRUPT] = nil
        raise interrupt, cause: interrupt.cause
      end

      # A handler that lets no exception through SQLite.
      class Handler
        def initialize(handler) = @handler = handler

        def call(count)
          @handler.call(count)
        rescue Exception => e # rubocop:disable Lint/RescueException -- raised again by pass_on
          Thread.current[INTERRUPT] = e
          false
        end
      end

      # A handler that waits for so many seconds.
      class Patience
        def initialize(seconds) = @seconds = seconds

        def call(count)
          now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
          @end = now + @seconds if count.zero?
          return false if now >= @end

          sleep PAUSE
        end
      end

      # For SQLite3::Database.
      module Database
        def busy_timeout=(milliseconds)
          milliseconds.positive? ? busy_handler(Patience.new(milliseconds / 1000.0)) : super
        end

        def busy_timeout(milliseconds)
          self.busy_timeout = milliseconds
          self
        end

        def busy_handler(handler = nil, &block)
          handler ||= block
          super(handler && Handler.new(handler))
        end

        private

        def exec_batch(...)
          super
        rescue ::SQLite3::BusyException
          SqliteWaits.pass_on
          raise
        end
      end

      # For SQLite3::Statement.
      module Statement
        def initialize(...)
          super
        rescue ::SQLite3::BusyException
          SqliteWaits.pass_on
          raise
        end

        def step
          super
        rescue ::SQLite3::BusyException
          SqliteWaits.pass_on
          raise
        end
      end

      # For SQLite3::Backup, which returns that it was busy.
      module Backup
        def step(...) = super.tap { SqliteWaits.pass_on }
      end
      private_constant :Handler, :Patience, :Database, :Statement, :Backup
    end
  end
end
