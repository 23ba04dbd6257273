# frozen_string_literal: true

require "etc"
require "fileutils"
require "json"

module Bench
  # Databases: each starts a server of its own in tmp/, where it needs one, and fills a table of a thousand rows.
  module Stores
    # What they share. A subclass answers `place`, and may have a server.
    class Store
      NAME = "bench"
      ROWS = 1000

      # @param env [Hash] with which Ruby finds the drivers
      def initialize(env)
        @env = env
        @folder = File.join(TMP, "databases", name)
      end

      # @return [String]
      def name = self.class.name.split("::").last.downcase

      # @return [Hash] where it is, as Libraries understand it
      def place = { host: "127.0.0.1", port: @port, username: NAME, database: NAME }

      # @raise [Unavailable, Failed]
      def start
        FileUtils.rm_rf(@folder)
        FileUtils.mkdir_p(@folder)
        make
      end

      def stop = @child&.stop

      private

      def fill(text) = text + (1..ROWS).map { |id| "(#{id}, 0)" }.join(", ")

      # A server that refuses to run as root runs as this user.
      def as(user) = Process.uid.zero? ? ["runuser", "-u", user, "--"] : []

      def serve(*command, &ready)
        @child = Child.new(command, name: "databases-#{name}")
        @child.wait_ready(seconds: 20, &ready)
      end

      # @raise [Unavailable] with what the command says
      def call(*command, input: "")
        text, status = Open3.capture2e(Child::CLEAN.merge(@env), *command, stdin_data: input, chdir: @folder)
        return if status.success?

        raise Unavailable, (text[/^.*(?:error|fatal|could not).*$/i] || text.lines.last.to_s).strip
      end

      TABLE = "CREATE TABLE counts (id INTEGER PRIMARY KEY, number INTEGER NOT NULL)"
      ROW = "INSERT INTO counts VALUES "
      private_constant :TABLE, :ROW
    end

    # PostgreSQL as it comes, but for the sync of each commit: the disk is not what is compared.
    class Postgresql < Store
      DRIVERS = %w[pg].freeze

      private

      def make
        Tools.find("pg_config")
        tools = programs
        FileUtils.chown("postgres", nil, @folder) if Process.uid.zero?
        @port = Ports.free
        data = File.join(@folder, "data")
        call(*as("postgres"), "#{tools}/initdb", "-D", data, "-U", NAME, "-A", "trust", "-E", "UTF8", "--no-sync")
        there = ["-h", "127.0.0.1", "-p", @port.to_s]
        serve(*as("postgres"), "#{tools}/postgres", "-D", data, *there, "-k", @folder, "-c", "synchronous_commit=0") do
          system("#{tools}/pg_isready", "-q", *there)
        end
        [["template1", "CREATE DATABASE #{NAME}"], [NAME, TABLE], [NAME, fill(ROW)]].each do |database, text|
          call("#{tools}/psql", "-q", *there, "-U", NAME, database, input: text)
        end
      end

      # Debian has them in a folder for each version.
      def programs
        Tools.find("pg_createcluster")
        initdb = Dir["/usr/lib/postgresql/*/bin/initdb"].max or raise Unavailable, "PostgreSQL has no initdb"
        File.dirname(initdb)
      end
    end

    # MariaDB as it comes, with the same exception.
    class Mysql < Store
      DRIVERS = %w[mysql2 trilogy].freeze

      private

      def make
        %w[mariadb_config my_print_defaults].each { |program| Tools.find(program) }
        server = Tools.find("mariadbd")
        @port = Ports.free
        data = File.join(@folder, "data")
        user = Etc.getpwuid.name
        call("mariadb-install-db", "--no-defaults", "--user=#{user}", "--datadir=#{data}", "--skip-test-db",
             "--auth-root-authentication-method=normal")
        serve(server, "--no-defaults", "--user=#{user}", "--datadir=#{data}", "--bind-address=127.0.0.1",
              "--port=#{@port}", "--socket=#{@folder}/socket", "--innodb-flush-log-at-trx-commit=2",
              "--init-file=#{first_statements}") { filled? }
      end

      # The server runs them before it accepts a connection.
      def first_statements
        File.join(@folder, "first.sql").tap do |path|
          users = %w[127.0.0.1 localhost].flat_map do |host|
            ["CREATE USER #{NAME}@'#{host}'", "GRANT ALL ON #{NAME}.* TO #{NAME}@'#{host}'"]
          end
          lines = ["CREATE DATABASE #{NAME}", *users, "USE #{NAME}", TABLE, fill(ROW)]
          File.write(path, lines.map { |line| "#{line};\n" }.join)
        end
      end

      def filled?
        TCPSocket.new("127.0.0.1", @port).close
        true
      rescue Errno::ECONNREFUSED
        false
      end
    end

    # A file with a write-ahead log, as Rails has it; the gem brings SQLite.
    class Sqlite < Store
      DRIVERS = %w[sqlite3].freeze
      FILL = <<~RUBY
        require "sqlite3"
        SQLite3::Database.new(ARGV.shift).tap { |database| ARGV.each { |text| database.execute(text) } }.close
      RUBY

      def place = { database: File.join(@folder, "bench.db") }

      private

      def make
        call(*Ruby.here.command("-e", FILL), place[:database], "PRAGMA journal_mode = WAL", TABLE, fill(ROW))
      end
    end

    ALL = [Postgresql, Mysql, Sqlite].freeze
  end
end
