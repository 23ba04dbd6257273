# frozen_string_literal: true

require "test_helper"
require "support/process_case"
require "support/server_case"
require "sequel"

# Sequel under requests at the same time: each transaction has a connection to itself. The database is made of
# sessions that wait, as those over a network do, and that know what was committed on them.
class SequelTest < Minitest::Test
  include ServerCase

  # What one session has inserted counts when it commits.
  class Session
    def initialize(committed)
      @committed = committed
      @pending = []
    end

    def execute(sql)
      sleep 0.002
      case sql
      when "COMMIT" then @committed.concat(@pending)
      when /\AINSERT (\d+)/ then return @pending << Integer(Regexp.last_match(1))
      end
      @pending = []
    end
  end

  # A driver for it.
  class Database < Sequel::Database
    def connect(_server) = Session.new(opts[:committed])
    def disconnect_connection(_session) = nil
    def execute_dui(sql, _options = {}) = synchronize { |session| session.execute(sql) }
    def log_connection_execute(session, sql) = session.execute(sql)
  end

  # Inserts its number, twice, and rolls the odd ones back.
  def transactions(database)
    lambda do |env|
      number = Integer(env["PATH_INFO"].delete_prefix("/"))
      database.transaction do
        2.times { database.execute_dui("INSERT #{number}") }
        raise Sequel::Rollback if number.odd?
      end
      [200, { "content-type" => "text/plain" }, [number.to_s]]
    end
  end

  # The database is connected before anybody knows that there will be a server.
  def test_forty_transactions_at_once
    committed = []
    database = Database.new(committed:, max_connections: 10, pool_timeout: 20, keep_reference: false)
    database.transaction { database.execute_dui("INSERT 1000") }
    running = serve(transactions(database))
    clients = Array.new(40) { |i| connect(running).write("GET /#{i} HTTP/1.1\r\nHost: a.test\r\n\r\n") }
    assert_equal [200], clients.map { |client| client.read.status }.uniq
    expected = (0...40).select(&:even?).flat_map { |number| [number, number] }
    assert_equal [*expected, 1000], committed.sort
  end
end

# What the server says of Sequel, and when it refuses to serve.
class SequelBootTest < Minitest::Test
  include ProcessCase

  APP = "run ->(_env) { [200, {}, [Sequel.current.class.name]] }\n"
  SAID = /Sequel: .*fiber_concurrency/

  def test_it_is_said_once
    command = run_abaca("require 'sequel'\n#{APP}")
    assert_equal "Fiber", connect(command.port).call(ServerCase::GET).body
    assert_equal 1, command.text.scan(SAID).size, command.text
  end

  def test_threads_need_nothing
    command = run_abaca("require 'sequel'\n#{APP}", "--mode", "thread")
    assert_equal "Thread", connect(command.port).call(ServerCase::GET).body
    refute_match SAID, command.text
  end

  def test_without_sequel_nothing_is_loaded_for_it
    command = run_abaca(<<~RUBY)
      run ->(_env) { [200, {}, [defined?(Sequel).inspect, $LOADED_FEATURES.grep(%r{abaca/compat/}).inspect]] }
    RUBY
    assert_equal "nil[]", connect(command.port).call(ServerCase::GET).body
  end

  def test_one_connection_for_everybody_is_refused
    app = "require 'sequel'\nSequel.connect('mock://sqlite', single_threaded: true)\n#{APP}"
    command = run_abaca(app)
    assert_equal 1, command.wait.exitstatus
    assert_match(/\Aabaca: Sequel has a database \(mock\) with one connection for .*single_threaded/, command.said)
    assert_equal 1, command.said.lines.size, command.text
    assert run_abaca(app, "--mode", "thread").port
  end
end
