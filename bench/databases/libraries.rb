# frozen_string_literal: true

# What keeps an app's connections, at most SIZE of them: `transaction` begins one on a connection, and yields what
# executes a statement. Each waits for 5 s for a connection, which is the default of all.
module Libraries
  SIZE = 5
  PATIENCE = 5000 # ms for SQLite's lock
  # The disk is not what is compared. Active Record's adapter has it by itself.
  UNSYNCED = "PRAGMA synchronous = NORMAL"

  # Active Record without Rails.
  class ActiveRecord
    ADAPTERS = { "pg" => "postgresql" }.freeze

    def initialize(driver, place)
      require "active_record"
      place = { **place, adapter: ADAPTERS.fetch(driver, driver), pool: SIZE, timeout: PATIENCE }
      ::ActiveRecord::Base.establish_connection(place)
    end

    def transaction
      ::ActiveRecord::Base.connection_pool.with_connection do |connection|
        connection.transaction { yield connection.method(:exec_query) }
      end
    end
  end

  # Sequel, which begins transactions in SQLite as it is told.
  class Sequel
    ADAPTERS = { "pg" => "postgres", "sqlite3" => "sqlite" }.freeze

    def initialize(driver, place)
      require "sequel"
      sqlite = driver == "sqlite3"
      @options = sqlite ? { mode: :immediate } : {}
      @database = ::Sequel.connect(adapter: ADAPTERS.fetch(driver, driver), max_connections: SIZE, timeout: PATIENCE,
                                   connect_sqls: sqlite ? [UNSYNCED] : [], user: place[:username],
                                   **place.except(:username))
    end

    def transaction
      @database.transaction(**@options) do
        yield ->(text) { text.start_with?("SELECT") ? @database.fetch(text).all : @database.run(text) }
      end
    end
  end

  # The driver's own connections in a ConnectionPool.
  class ConnectionPool
    def initialize(driver, place)
      require "connection_pool"
      require driver
      @begin = driver == "sqlite3" ? "BEGIN IMMEDIATE" : "BEGIN"
      @pool = ::ConnectionPool.new(size: SIZE, timeout: 5) { send(driver, place) }
    end

    def transaction
      @pool.with do |run|
        run.call(@begin)
        yield run
        run.call("COMMIT")
      rescue StandardError
        run.call("ROLLBACK")
        raise
      end
    end

    private

    def pg(place)
      connection = PG.connect(user: place[:username], dbname: place[:database], **place.slice(:host, :port))
      ->(text) { connection.exec(text).values }
    end

    def mysql2(place)
      connection = Mysql2::Client.new(place)
      ->(text) { connection.query(text).to_a }
    end

    def trilogy(place)
      connection = Trilogy.new(place)
      ->(text) { connection.query(text).to_a }
    end

    def sqlite3(place)
      connection = SQLite3::Database.new(place[:database])
      connection.busy_handler_timeout = PATIENCE
      connection.execute(UNSYNCED)
      ->(text) { connection.execute(text) }
    end
  end
end
