# frozen_string_literal: true

# also: modes sanitized portable

require "io/nonblock"
require "net/http"
require "resolv"
require "timeout"
require "test_helper"
require "support/server_case"

# A request that waits holds up nobody, whatever it waits with.
class RackConcurrencyTest < Minitest::Test
  include ServerCase

  def setup
    super
    @upstreams = []
  end

  def teardown
    @upstreams.each do |listener, thread|
      thread.kill.join
      listener.close
    end
    super
  end

  # A server of plain threads that answers when `together` requests wait for it; returns its port.
  def upstream(together: 1)
    listener = TCPServer.new("127.0.0.1", 0)
    listener.listen(1_024)
    thread = Thread.new { upstream_loop(listener, together) }
    @upstreams << [listener, thread]
    listener.local_address.ip_port
  end

  def test_slow_upstreams_are_asked_at_once
    port = upstream(together: 200)
    running = serve do |env|
      [200, TYPE.dup, [Net::HTTP.get(URI("http://127.0.0.1:#{port}#{env['PATH_INFO']}"))]]
    end
    clients = Array.new(200) { |nth| connect(running).write(request("GET", "/#{nth}")) }
    assert_equal Array.new(200) { |nth| "slow /#{nth}" }, clients.map { |client| client.read.body }
  end

  def test_sleep
    running = serve do
      sleep 1
      [200, TYPE.dup, ["slept"]]
    end
    started = now
    clients = Array.new(100) { connect(running).write(GET) }
    assert_equal ["slept"], clients.map { |client| client.read.body }.uniq
    assert_operator now - started, :>=, 0.99
    assert_operator now - started, :<, 40, "100 sleeps of 1 s"
  end

  # Waits that end when another request comes: they would hang if they held the loop.
  def test_queue
    queue = Queue.new
    assert_waits_for_another(->(_env) { queue.pop }, -> { queue << "go" })
  end

  def test_sized_queue
    queue = SizedQueue.new(1)
    queue << 0
    assert_waits_for_another(->(_env) { queue << 1 }, -> { queue.pop })
  end

  def test_condition_variable
    mutex = Mutex.new
    condition = ConditionVariable.new
    open = false
    assert_waits_for_another(->(_env) { mutex.synchronize { condition.wait(mutex) until open } },
                             -> { mutex.synchronize { (open = true) && condition.signal } })
  end

  def test_mutex
    mutex = Mutex.new
    release = Queue.new
    holders = Queue.new
    running = serve do |env|
      case env["PATH_INFO"]
      when "/release" then release << true
      else
        mutex.synchronize do
          holders << true
          release.pop if env["PATH_INFO"] == "/hold"
        end
      end
      [200, TYPE.dup, [env["PATH_INFO"]]]
    end
    holder = connect(running).write(request("GET", "/hold"))
    assert eventually { holders.size == 1 }
    waiter = connect(running).write(request("GET", "/wait"))
    assert waiter.silent?(0.1)
    assert_equal "/release", ask(running, request("GET", "/release")).body
    assert_equal %w[/hold /wait], [holder.read.body, waiter.read.body]
  end

  def test_pipe
    reader, writer = IO.pipe
    assert_waits_for_another(->(_env) { reader.gets }, -> { writer.puts("go") })
  ensure
    reader.close
    writer.close
  end

  def test_thread_value
    release = Queue.new
    assert_waits_for_another(->(_env) { Thread.new { release.pop }.value }, -> { release << 1 })
  end

  def test_child_process
    reader, writer = IO.pipe
    reader.nonblock = false # the child's `read` would give up
    command = ["sh", "-c", "read _", { in: reader }]
    assert_waits_for_another(->(_env) { Process.wait(spawn(*command)) }, -> { writer.puts("go") })
  ensure
    reader.close
    writer.close
  end

  def test_timeout
    running = serve do |env|
      text = begin
        long = env["PATH_INFO"] == "/long"
        Timeout.timeout(long ? 0.1 : 20) { sleep(long ? 60 : 0.2) }
        "in time"
      rescue Timeout::Error
        "timed out"
      end
      [200, TYPE.dup, [text]]
    end
    paths = %w[/long /short] * 10
    clients = paths.map { |path| connect(running).write(request("GET", path)) }
    assert_equal ["timed out", "in time"] * 10, clients.map { |client| client.read.body }
  end

  def test_names_are_resolved
    need_localhost
    port = upstream
    running = serve do
      [200, TYPE.dup, [[Addrinfo.getaddrinfo("localhost", port, :INET, :STREAM).size.positive?,
                        Net::HTTP.get(URI("http://localhost:#{port}/name"))].inspect]]
    end
    clients = Array.new(10) { connect(running).write(GET) }
    assert_equal ['[true, "slow /name"]'] * 10, clients.map { |client| client.read.body }
  end

  def test_threads_of_the_app
    running = serve { [200, TYPE.dup, [Array.new(5) { |nth| Thread.new { sleep 0.01 and nth } }.sum(&:value).to_s]] }
    clients = Array.new(10) { connect(running).write(GET) }
    assert_equal ["10"] * 10, clients.map { |client| client.read.body }
  end

  # Beyond max_fibers requests queue; they are not lost.
  def test_more_requests_than_fibers
    most = 0
    busy = 0
    running = serve(**ServerCase.places(5)) do
      busy += 1
      most = [most, busy].max
      sleep 0.02
      busy -= 1
      [200, TYPE.dup, ["done"]]
    end
    clients = Array.new(60) { connect(running).write(GET) }
    assert_equal ["done"] * 60, clients.map { |client| client.read.body }
    assert_operator most, :<=, 5
  end

  # A thread elsewhere in the process, with requests of its own.
  def test_two_servers_in_one_process
    first = serve { [200, TYPE.dup, ["first"]] }
    second = serve do
      sleep 0.01
      [200, TYPE.dup, ["second"]]
    end
    10.times { assert_equal %w[first second], [ask(first).body, ask(second).body] }
    first.stop
    assert_equal "second", ask(second).body
  end

  private

  # "/wait" runs `wait`; while it does, "/" is answered, and "/go" ends it.
  def assert_waits_for_another(wait, release)
    running = serve do |env|
      wait.call(env) if env["PATH_INFO"] == "/wait"
      release.call if env["PATH_INFO"] == "/go"
      [200, TYPE.dup, [env["PATH_INFO"]]]
    end
    waiter = connect(running).write(request("GET", "/wait"))
    5.times { assert_equal "/", ask(running).body }
    assert waiter.silent?(0.05), "did not wait"
    assert_equal "/go", ask(running, request("GET", "/go")).body
    assert_equal "/wait", waiter.read.body
  end

  def upstream_loop(listener, together)
    loop do
      asked = Array.new(together) do
        socket = listener.accept
        path = socket.gets.split[1]
        nil until socket.gets == "\r\n"
        [socket, "slow #{path}"]
      end
      asked.each do |socket, text|
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: #{text.bytesize}\r\nConnection: close\r\n\r\n#{text}")
        socket.close
      end
    end
  end
end
