# frozen_string_literal: true

# also: modes sanitized portable

require "English"
require "open3"
require "test_helper"
require "support/server_case"

# Fibers are used again: nothing of one request may be seen by the next. And what a request costs.
class RackIsolationTest < Minitest::Test
  include ServerCase

  def test_fiber_locals_do_not_leak
    running = serve do
      seen = [Thread.current[:leak], Thread.current.keys.grep(/leak/)].inspect
      Thread.current[:leak] = "from an earlier request"
      [200, TYPE.dup, [seen]]
    end
    client = connect(running)
    assert_equal ["[nil, []]"], Array.new(20) { client.call(GET).body }.uniq
  end

  def test_fiber_locals_stay_for_the_request
    running = serve do
      Thread.current[:mine] = Object.new.object_id.to_s
      mine = Thread.current[:mine]
      sleep 0.01
      [200, TYPE.dup, [(Thread.current[:mine] == mine).to_s]]
    end
    clients = Array.new(30) { connect(running).write(GET) }
    assert_equal ["true"], clients.map { |client| client.read.body }.uniq
  end

  def test_fiber_storage_does_not_leak
    skip "Fiber storage needs Ruby 3.2" unless Fiber.respond_to?(:[]=)
    running = serve do
      seen = Fiber[:leak].inspect
      Fiber[:leak] = "from an earlier request"
      [200, TYPE.dup, [seen]]
    end
    client = connect(running)
    assert_equal ["nil"], Array.new(20) { client.call(GET).body }.uniq
  end

  def test_locals_do_not_leak_after_an_error
    running = serve(lint: false) do |env|
      seen = Thread.current[:leak].inspect
      Thread.current[:leak] = "left"
      raise "broken" if env["PATH_INFO"] == "/bad"

      [200, TYPE.dup, [seen]]
    end
    10.times do
      ask(running, request("GET", "/bad"))
      assert_equal "nil", ask(running).body
    end
  end

  Kept = Class.new

  # What a request has had is garbage when it is over, however long its fiber lies idle.
  def test_an_idle_fiber_keeps_nothing_of_its_last_request
    gate = Queue.new
    running = serve(lint: false) do |env|
      env["kept"] = Kept.new
      gate.pop
      [200, TYPE.dup, ["x"]]
    end
    clients = Array.new(60) { connect(running).write(GET) }
    assert eventually { ObjectSpace.each_object(Kept).count == 60 }
    60.times { gate << true }
    assert_equal ["x"], clients.map { |client| client.read.body }.uniq
    left = nil
    assert(eventually { GC.start || (left = ObjectSpace.each_object(Kept).count) < 15 }, "#{left} are left")
  end

  # $! and $~ belong to a frame or a fiber; an app must not see an earlier request's.
  def test_error_info_does_not_leak
    running = serve(lint: false) do |env|
      seen = $ERROR_INFO.inspect
      raise "an earlier request's" if env["PATH_INFO"] == "/bad"

      [200, TYPE.dup, [seen]]
    end
    5.times do
      ask(running, request("GET", "/bad"))
      assert_equal "nil", ask(running).body
    end
  end

  def test_requests_run_on_nonblocking_fibers_with_a_scheduler
    needs_scheduler
    running = serve { [200, TYPE.dup, [[Fiber.current.blocking?, Fiber.scheduler.nil?].inspect]] }
    assert_equal "[false, false]", ask(running).body
  end

  def test_many_requests_use_few_fibers
    running = serve(spare_loops: 0) { [200, TYPE.dup, [Fiber.current.object_id.to_s]] } # each has fibers of its own
    client = connect(running)
    fibers = Array.new(200) { client.call(GET).body.tap { assert eventually { threads_rest? } } }
    assert_operator fibers.uniq.size, :<=, 5
  end

  # The app's own Fiber and Enumerator live inside a request.
  def test_fibers_and_enumerators_of_the_app
    running = serve do
      inner = Fiber.new { Fiber.yield(1) + 1 }
      numbers = Enumerator.new { |out| 3.times { |nth| out << nth } }
      [200, TYPE.dup, [[inner.resume, inner.resume(5), numbers.next, numbers.next].inspect]]
    end
    assert_equal "[1, 6, 0, 1]", ask(running).body
  end

  def test_killing_a_helper_thread_leaves_the_request_alone
    running = serve do
      helper = Thread.new { sleep }
      helper.kill
      helper.join
      [200, TYPE.dup, ["alive"]]
    end
    assert_equal "alive", ask(running).body
  end

  BUDGET = 10
  PROGRAM = <<~'RUBY'
    # frozen_string_literal: true
    require "abaca"
    body = ["hello\n"].freeze
    server = Abaca::Server.new(lambda { |env|
      if env["PATH_INFO"] == "/stats"
        [200, { "content-type" => "text/plain" }, [GC.stat(:total_allocated_objects).to_s]]
      else
        [200, { "content-type" => "text/plain" }, body]
      end
    }, {})
    puts server.add_tcp_listener("127.0.0.1", 0)
    $stdout.flush
    Thread.new { $stdin.read; server.stop }
    server.run
  RUBY

  # The app above makes an Array and a Hash of its own; they count.
  def test_objects_a_request
    command = [RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, "-e", PROGRAM]
    Open3.popen2(*command) do |input, output, child|
      client = Wire::Client.new(Integer(output.gets))
      count = -> { Integer(client.call(request("GET", "/stats")).body) }
      200.times { client.call(GET) }
      count.call
      before = count.call
      500.times { client.call(GET) }
      objects = (count.call - before) / 500.0
      assert_operator objects, :<=, BUDGET
      client.close
      input.close
      assert child.join(20), "the server did not stop"
      assert child.value.success?
    ensure
      client&.close
      Process.kill(:KILL, child.pid) if child.alive?
      child.join
    end
  end
end
