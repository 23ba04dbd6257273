# frozen_string_literal: true

# also: rubies

require "test_helper"
require "open3"
require "support/framework_case"
require "support/process_case"
require "support/server_case"
require "sqlite3"
require "tmpdir"

# SQLite, where requests wait for the lock that another one holds while it waits itself.
class SqliteWaitsTest < Minitest::Test
  include ServerCase

  WRITERS = 40
  TIMEOUT = 20_000 # ms; nothing here takes as long, unless the one that holds the lock cannot go on
  WRITE = "UPDATE counts SET number = number + 1"

  def setup
    super
    @folder = Dir.mktmpdir
    @file = File.join(@folder, "test.db")
    open_file { |database| database.execute_batch("CREATE TABLE counts (number); INSERT INTO counts VALUES (0)") }
    @locked = Queue.new
    @ends = Queue.new
  end

  def teardown
    super
    FileUtils.remove_entry(@folder)
  end

  def open_file(timeout = TIMEOUT)
    database = SQLite3::Database.new(@file)
    database.busy_timeout(timeout)
    yield database
  ensure
    database.close
  end

  def answer(text) = [200, TYPE.dup, [text.to_s]]

  # The path /hold keeps the lock until it is told to end; the block answers others.
  def serve_holder(**options)
    serve(**options) do |env|
      case env["PATH_INFO"]
      when "/hold" then hold && answer("held")
      when "/free" then answer("free")
      else yield env
      end
    end
  end

  def hold
    open_file do |database|
      database.transaction(:exclusive) do
        database.execute(WRITE)
        @locked << true
        @ends.pop
      end
    end
  end

  def ask_holder(running)
    client = connect(running).write(request("GET", "/hold"))
    assert @locked.pop
    client
  end

  def finish(holder)
    @ends << true
    assert_equal "held", holder.read.body
  end

  def written = open_file { |database| database.get_first_value("SELECT number FROM counts") }

  def test_writers_wait_for_one_that_waits
    running = serve_holder { open_file { |database| database.execute(WRITE) } && answer("written") }
    holder = ask_holder(running)
    others = Array.new(WRITERS) { connect(running).write(GET) }
    assert_equal "free", ask(running, request("GET", "/free")).body
    finish(holder)
    assert_equal ["written"], others.map { |client| client.read.body }.uniq
    assert_equal WRITERS + 1, written
  end

  def test_the_time_has_an_end
    running = serve_holder do
      open_file(50) { |database| database.execute(WRITE) }
    rescue SQLite3::BusyException => e
      answer(e.message)
    end
    holder = ask_holder(running)
    assert_match(/\Adatabase is locked/, ask(running).body)
    finish(holder)
  end

  # What is raised in a fiber that waits in SQLite must not leave it half way: statements would stay in progress, and
  # the next thread that uses the connection would wait for SQLite's own lock, with Ruby's, for ever.
  CALLS = {
    "a_statement" => ->(database) { database.execute(WRITE) },
    "a_batch" => ->(database) { database.execute_batch2(WRITE) },
    "a_query" => ->(database) { database.prepare("SELECT number FROM counts").close },
    "a_backup" => lambda do |database|
      backup = SQLite3::Backup.new(SQLite3::Database.new(":memory:"), "main", database, "main")
      backup.step(1)
    ensure
      backup.finish
    end
  }.freeze

  CALLS.each do |name, call|
    define_method("test_a_deadline_that_interrupts_#{name}") do
      open_file do |database|
        # A query waits where it reads what tables there are, which is done once.
        database.execute("SELECT number FROM counts") unless name == "a_query"
        running = serve_holder { |env| answer(interrupted(env, database, call)) }
        holder = ask_holder(running)
        assert_equal 504, ask(running, request("GET", "/late")).status
        finish(holder)
        assert_equal "again", ask(running).body
      ensure
        running&.stop # a request that still waits in SQLite has its lock, for which close would wait
      end
    end
  end

  def interrupted(env, database, call)
    env["abaca.client"].request_timeout = 0.1 if env["PATH_INFO"] == "/late"
    call.call(database)
    database.transaction { database.execute(WRITE) }
    "again"
  end

  def test_a_handler_of_the_app_is_interrupted_as_well
    open_file do |database|
      running = serve_holder { |env| answer(interrupted(env, database, CALLS["a_statement"])) }
      database.busy_handler { sleep } # handlers from before the server are as they were
      holder = ask_holder(running)
      assert_equal 504, ask(running, request("GET", "/late")).status
      finish(holder)
      assert_equal "again", ask(running).body
    ensure
      running&.stop
    end
  end
end

# The same with connections that the server has not seen begin, or begins late.
class SqliteBootTest < Minitest::Test
  include ProcessCase

  # A request writes on two connections at once: the second one has to wait until the first one, which sleeps, is done.
  RUN = <<~RUBY
    run(lambda do |_env|
      done = Queue.new
      write.call do
        Fiber.schedule do
          write.call { done << "written" }
        rescue StandardError => e
          done << e.message
        end
        sleep 0.02
      end
      [200, {}, [done.pop]]
    end)
  RUBY

  SEQUEL = <<~RUBY
    require "sequel"
    database = Sequel.connect("sqlite://%<file>s", timeout: 10_000, keep_reference: true)
    database.create_table(:counts) { Integer :number }
    write = ->(&block) { database.transaction(mode: :immediate, &block) }
  RUBY

  ACTIVE_RECORD = <<~RUBY
    require "active_record"
    ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: "%<file>s", timeout: 10_000)
    write = lambda do |&block|
      ActiveRecord::Base.connection_pool.with_connection do |connection|
        connection.transaction do
          connection.execute("CREATE TABLE IF NOT EXISTS counts (number)")
          connection.execute("DELETE FROM counts")
          block.call
        end
      end
    end
  RUBY

  def written(app)
    Dir.mktmpdir do |folder|
      command = run_abaca(format(app, file: File.join(folder, "test.db")) + RUN)
      connect(command.port).call(ServerCase::GET).body
    end
  end

  def test_a_connection_from_before = assert_equal "written", written(SEQUEL)

  def test_a_gem_that_a_request_loads = assert_equal "written", written(ACTIVE_RECORD)

  # A Rails app connects when it boots, before there is a server. Its bundle here has no sqlite3.
  PROGRAM = <<~RUBY
    require "rails"
    require "abaca"
    module SQLite3
      Database, Statement, Backup = Array.new(3) { Class.new }
    end
    ActiveSupport.run_load_hooks(:active_record_sqlite3adapter, Object)
    puts SQLite3::Database.ancestors.first
  RUBY

  def test_the_first_connection_of_a_rails_app
    environment = FrameworkCase.environment(File.join(FrameworkCase::FOLDER, "rails"))
    out, status = Open3.capture2e(environment, RbConfig.ruby, "-Ilib", "-rbundler/setup", "-W0", "-e", PROGRAM)
    assert_equal [true, "Abaca::Compat::SqliteWaits::Database\n"], [status.success?, out]
  end
end
