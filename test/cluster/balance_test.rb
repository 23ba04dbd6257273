# frozen_string_literal: true

require "test_helper"
require "abaca"
require "support/cluster_case"

# Which worker gets a connection, and that connections move on to workers with less to do.
class ClusterBalanceTest < Minitest::Test
  include ClusterCase

  # All answer with their process and path. /hold keeps a place until there is a file named "go", /stall the loop and
  # Ruby's lock until something comes through the fifo.
  RACKUP = <<~RUBY
    require "fiddle"
    READ = Fiddle::Function.new(Fiddle.dlopen(nil)["read"],
                                [Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T],
                                Fiddle::TYPE_SSIZE_T, need_gvl: true)
    FIFO = File.open("fifo", File::RDWR)
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/hold" then sleep 0.01 until File.exist?("go")
      when "/stall"
        File.write("stalls", "")
        READ.call(FIFO.fileno, Fiddle::Pointer.malloc(1, Fiddle::RUBY_FREE), 1)
      when "/work" then 2000.times { Integer.sqrt(2**2000) }
      end
      [200, { "content-type" => "text/plain" }, ["\#{Process.pid} \#{env["PATH_INFO"]}"]]
    end)
  RUBY

  def path(name) = File.join(@directory, name)

  def balanced(config = "", workers: 2)
    File.mkfifo(path("fifo"))
    run_cluster(RACKUP, config: "workers #{workers}\n#{config}", count: workers)
  end

  def get(path) = "GET #{path} HTTP/1.1\r\nHost: a.test\r\n\r\n"

  # The process that has given this answer.
  def worker_of(response, path = nil)
    assert_equal 200, response.status
    pid, about = response.body.split
    assert_equal path, about if path
    Integer(pid)
  end

  # The workers that answer so many new connections.
  def answering(command, count) = Array.new(count) { worker_of(connect(command.port).call(CLOSE)) }.uniq

  def both_answer?(command)
    expected = booted(command).map(&:pid).sort
    seen = []
    eventually { (seen |= answering(command, 1)).sort == expected }
  end

  def end_stall = File.open(path("fifo"), "w") { |fifo| fifo << "x" }

  # So many kept connections of one worker.
  def kept_by(command, pid, count)
    kept = []
    assert(eventually do
      client = connect(command.port)
      worker_of(client.call(get("/"))) == pid ? kept << client : client.close
      kept.size == count
    end)
    kept
  end

  def test_a_full_worker_does_not_accept
    command = balanced("max_fibers 1")
    client = connect(command.port).write(get("/hold"))
    assert(eventually { command.signal(:PWR) && command.text.include?("GET /hold") })
    others = answering(command, 20)
    assert_equal 1, others.size
    File.write(path("go"), "")
    full = worker_of(client.read)
    assert_equal booted(command).map(&:pid).sort, [full, *others].sort
    assert both_answer?(command)
    assert_equal 0, finish(command)
  end

  # They answer in turn.
  def test_all_are_full
    command = balanced("max_fibers 1")
    clients = Array.new(6) { connect(command.port).write(get("/hold")) }
    assert(eventually { command.signal(:PWR) && command.text.scan("queued   GET /hold").size >= 4 })
    File.write(path("go"), "")
    clients.each { |client| worker_of(client.read, "/hold") }
    assert_equal 0, finish(command)
  end

  # Its kept connections are served by the other one, with all that has come of their requests.
  def test_a_worker_whose_lock_is_held
    command = balanced
    pid = booted(command).first.pid
    kept = kept_by(command, pid, 5)
    kept[0].write("GET /started HTTP/1.1\r\nHo")
    client = kept.pop.write(get("/stall"))
    assert(eventually { File.exist?(path("stalls")) })
    other = answering(command, 10)
    assert_equal [booted(command).last.pid], other
    kept[0].write("st: a.test\r\n\r\n")
    assert_equal other, [worker_of(kept[0].read, "/started")]
    kept[1..].each do |one|
      one.write(%w[/a /b /c].map { |path| get(path) }.join)
      assert_equal other * 3, %w[/a /b /c].map { |path| worker_of(one.read, path) }
    end
    end_stall
    assert_equal pid, worker_of(client.read, "/stall")
    assert both_answer?(command)
    assert_equal 0, finish(command)
  end

  def test_connections_stay_where_it_is_set_off
    command = balanced("worker_balance false\nqueue_timeout 0")
    pid = booted(command).first.pid
    client, kept = kept_by(command, pid, 2)
    client.write(get("/stall"))
    assert(eventually { File.exist?(path("stalls")) })
    kept.write(get("/late"))
    page = Abaca::Page.of(command.pid)
    assert(eventually { page.find { |slot| slot.pid == pid }.figures[:waiting] == 1 })
    end_stall
    assert_equal [pid, pid], [client.read, kept.read].map { |response| worker_of(response) }
    assert_equal [0, 0], page.sums.values_at(:moved_out, :moved_in)
    assert_equal 0, finish(command)
  end

  # They were all on the only worker, and another one has come.
  def test_connections_spread
    command = balanced(workers: 1)
    clients = Array.new(20) { connect(command.port) }
    first = booted(command).first.pid
    clients.each { |client| assert_equal first, worker_of(client.call(get("/"))) }
    command.signal(:TTIN)
    second = wait_for_workers(command, 2).last.pid
    number = 0
    assert(eventually do
      clients.each { |client| client.write(get("/work") + get("/#{number += 1}")) }
      expected = number - clients.size
      answers = clients.map { |client| [worker_of(client.read, "/work"), worker_of(client.read, "/#{expected += 1}")] }
      answers.flatten.count(second) >= clients.size / 2
    end)
    assert_equal 0, finish(command)
  end

  # What was on its way to a worker that is killed is served by another one.
  def test_a_worker_is_killed_while_connections_move
    command = balanced
    load = Load.new(command.port, clients: 12)
    2.times do |round|
      assert load.more?(300)
      Process.kill(:KILL, running(command).first.pid)
      wait_for_workers(command, 3 + round)
    end
    assert load.more?(300)
    failures = load.stop
    assert_empty failures.grep_v(/EOFError|ECONNRESET/)
    assert_operator failures.size, :<=, 2 * 12
    assert_equal 0, finish(command)
  end

  def test_restarts_while_connections_move
    command = balanced("preload_app! false")
    load = Load.new(command.port, clients: 12)
    2.times do |round|
      assert load.more?(200)
      command.signal(:USR1)
      wait_for_workers(command, 4 + (2 * round))
    end
    assert load.more?(200)
    assert_empty load.stop
    assert_equal 0, finish(command)
  end
end
