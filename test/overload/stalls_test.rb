# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/process_case"

# One request computes without a pause, and the others go on: on a spare loop, or in turns with it when there
# is a quantum. The bounds are far from what a stalled server would take, and far from what is usual.
class OverloadStallsTest < Minitest::Test
  include ProcessCase

  RACKUP = <<~'RUBY'
    require "support/computing"
    burn = lambda do |seconds|
      started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      Computing::STEP.call(1_000) while Process.clock_gettime(Process::CLOCK_MONOTONIC) - started < seconds && !$over
    end
    trap("WINCH") { $over = true }
    type = { "content-type" => "text/plain" }
    run(lambda do |env|
      case env["PATH_INFO"]
      when "/burn" then warn("burning") || burn.call(Integer(env["QUERY_STRING"]))
      when "/compute" then warn("computing") || (nil until $over)
      when "/page" # of so many milliseconds of processor time
        limit = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + (Integer(env["QUERY_STRING"]) / 1000.0)
        nil while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < limit
      when "/fiber" then Fiber.new(blocking: true) { sleep 0.3 }.resume
      when "/lock" then File.open("lock") { |file| file.flock(File::LOCK_EX) }
      when "/exit" then warn("exiting") || exit(7)
      when "/fork"
        pid = fork { exit!(3) }
        next [200, type, [Process.wait2(pid).last.exitstatus.to_s]]
      when "/fork-exit"
        pid = fork
        exit 9 unless pid
        next [200, type, [Process.wait2(pid).last.exitstatus.to_s]]
      when "/wait"
        env["abaca.client"].request_timeout = 0.1
        warn("waiting") || sleep
      when "/hold" then warn("holding") || (sleep 0.01 until $over)
      when "/pieces"
        next [200, type, Enumerator.new { |out| %w[a b c].each { |piece| out << piece } && burn.call(60) }]
      when "/sleep" then sleep 0.05
      when "/stream"
        next [200, type, Enumerator.new { |out| 5.times { |i| out << "#{i}\n" and sleep 0.02 } }]
      when "/collect" then warn("collecting #{env["QUERY_STRING"]}") || GC.start
      when "/collect-on" then warn("collecting on") || (GC.start until $over)
      when "/loop" then next [200, type, [Thread.current.name.to_s]]
      end
      [200, type, [env["rack.input"].read.to_s + env["PATH_INFO"]]]
    end)
  RUBY

  # What half of the requests take no longer than; those that compute go on until the others are done.
  BOUND = 1.0

  GET = "GET %s HTTP/1.1\r\nHost: a.test\r\n\r\n"

  # This one really computes, in a line of the app's.
  def test_others_go_on_while_one_computes
    command = run_abaca(RACKUP)
    client = connect(command.port, timeout: 60).write(format(GET, "/compute"))
    command.wait_for(/computing/)
    told = %r{a request \(GET /compute\) has kept its loop for at least \d+ ms:\n +.*config\.ru:11:}
    assert_others_go_on(command, until_told: told)
    assert_equal "/compute", client.read.body
    command.signal(:TERM)
    assert_equal 0, command.wait.exitstatus
    assert_equal 1, command.text.scan("(GET /compute) has kept its loop").size, command.text
  end

  # A page of its own that takes long keeps nobody waiting, and equals could not have been served sooner.
  def test_what_keeps_nobody_waiting_is_not_logged
    command = run_abaca(RACKUP)
    get = format(GET, "/page?300")
    assert_equal "/page", connect(command.port).call(get).body
    equals = Array.new(3) { connect(command.port, timeout: 60).write(get) }
    equals.each { |client| assert_equal "/page", client.read.body }
    command.signal(:TERM)
    assert_equal 0, command.wait.exitstatus
    refute_match(/has kept its loop/, command.text)
  end

  def test_forks_beside_pages_that_saturate_the_server
    command = run_abaca(RACKUP)
    get = format(GET, "/page?15")
    askers = Array.new(3) do
      client = connect(command.port, timeout: 60)
      Thread.new { Array.new(8) { client.call(get).body } }
    end
    client = connect(command.port, timeout: 60)
    assert_equal %w[3] * 3, Array.new(3) { client.call(format(GET, "/fork")).body }
    assert_equal [["/page"] * 8] * 3, askers.map(&:value)
  end

  def test_a_call_that_blocks_is_named_as_such
    File.open(File.join(@directory, "lock"), "w") do |lock|
      lock.flock(File::LOCK_EX)
      command = run_abaca(RACKUP, config: "spare_loops 0")
      blocked = connect(command.port).write(format(GET, "/lock"))
      other = connect(command.port).write(format(GET, "/"))
      assert other.silent?(0.5)
      lock.flock(File::LOCK_UN)
      assert_equal %w[/lock /], [blocked, other].map { |client| client.read.body }
      command.wait_for(%r{\(GET /lock\) has kept its loop for at least \d+ ms, in a call that blocks the thread})
    end
  end

  # Also when nobody has waited because of it.
  def test_a_wait_of_a_blocking_fiber_is_named_once
    command = run_abaca(RACKUP)
    client = connect(command.port)
    3.times { assert_equal "/fiber", client.call(format(GET, "/fiber")).body }
    command.wait_for(%r{\(GET /fiber\) has kept its loop for .* ms, in a wait of a blocking fiber:\n.*config\.ru:\d+})
    command.signal(:TERM)
    assert_equal 0, command.wait.exitstatus
    assert_equal 1, command.text.scan("has kept its loop").size, command.text
  end

  # As in a container that has used up its share, or beside others on the machine: time in which the process does not
  # run is nobody's fault.
  def test_a_process_that_the_kernel_does_not_run
    command = run_abaca(RACKUP)
    client = connect(command.port, timeout: 60)
    2.times do
      client.write(format(GET, "/page?2"))
      20.times do
        command.signal(:STOP)
        sleep 0.075
        command.signal(:CONT)
        sleep 0.025
      end
      assert_equal "/page", client.read.body
    end
    refute_match(/has kept its loop|abaca: warning/, command.text)
  end

  def test_others_go_on_while_eight_compute
    command = run_abaca(RACKUP, config: "stall_report 0")
    burners = burn(command, 8)
    assert_others_go_on(command)
    assert_burnt(burners)
    refute_match(/kept its loop/, command.text)
  end

  # Neither its fiber, whose loop is kept, nor who leads, which is nobody of Ruby's when the spare loop is kept too,
  # can tell it: somebody has to be called.
  def test_who_cannot_be_reached_is_answered_all_the_same
    command = run_abaca(RACKUP)
    client = connect(command.port).write(format(GET, "/wait"))
    command.wait_for(/^waiting$/)
    burners = burn(command, 2)
    assert_equal 504, client.read.status
    command.wait_for(%r{a request is given up that did not end in \d+\.\d s \(GET /wait\)})
    command.signal(:WINCH)
    assert_burnt(burners)
  end

  # The spare loop hands it over, and has to look after it.
  def test_who_waits_for_a_thread_meanwhile_is_told_in_time
    command = run_abaca(RACKUP, config: "routes { thread '/hold' }\nthreads 0, 1\nqueue_timeout 1")
    first, second = Array.new(2) { connect(command.port) }
    first.write(format(GET, "/hold"))
    command.wait_for(/^holding$/)
    burners = burn(command, 1)
    assert_equal 503, second.call(format(GET, "/hold")).status
    command.signal(:WINCH)
    assert_equal "/hold", first.read.body
    assert_burnt(burners)
  end

  # Pieces may wait for each other, but not for what the app computes behind them, whatever it takes for a stall.
  def test_pieces_before_a_computation_leave_at_once
    command = run_abaca(RACKUP, config: "stall_after 60000")
    client = connect(command.port).write(format(GET, "/pieces"))
    received = +""
    received << client.read_some(1_024) until received.end_with?("c\r\n")
    command.signal(:WINCH)
    assert_equal "0\r\n\r\n", client.read_some(1_024)
  end

  # Each burner keeps a loop of its own; the others wait, but nothing is lost.
  def test_more_compute_than_there_are_loops
    command = run_abaca(RACKUP, config: "spare_loops 1")
    burners = burn(command, 4, seconds: 2, begun: 2)
    light = connect(command.port)
    assert_equal "/light", light.call(format(GET, "/light")).body
    assert_burnt(burners)
  end

  def test_what_needs_no_app_is_done_without_a_spare
    command = run_abaca(RACKUP, config: "spare_loops 0\nheader_timeout 1")
    connect(command.port).call(format(GET, "/light"))
    burners = burn(command, 1)
    slow = connect(command.port)
    slow.write("GET / HT")
    assert_equal 400, connect(command.port).call("no request\r\n\r\n").status
    assert_equal 408, slow.read.status
    command.signal(:WINCH)
    assert_burnt(burners)
  end

  def test_a_quantum_shares_one_loop
    command = run_abaca(RACKUP, config: "spare_loops 0\nquantum 20")
    burners = burn(command, 1)
    assert_others_go_on(command)
    assert_burnt(burners)
  end

  # Ruby gives a thread that computes 100 ms each time, in which each request has to wait, unless it is told to pass
  # the lock on.
  def test_a_busy_thread_does_not_keep_the_server_waiting
    waiting, passed_on = ["stall_after 0", ""].map do |config|
      command = run_abaca("#{RACKUP}Thread.new { Computing::STEP.call(1_000) while true }\n", config: config)
      seconds_of_a_request(connect(command.port)).tap { command.dispose }
    end
    assert_operator passed_on, :<, waiting / 2
  end

  # Nothing in Ruby can run meanwhile, on whatever loop.
  def test_a_collection_makes_nobody_else_come
    command = run_abaca("$objects = Array.new(3_000_000) { Object.new }\n#{RACKUP}", config: "stall_report 0")
    loops = Array.new(10) { |number| loop_beside_a_collection(command, number) }
    assert_operator loops.count("abaca spare"), :<, 5
  end

  # One after the other: it is the request that keeps its loop.
  def test_collections_without_end_are_a_stall
    command = run_abaca("$objects = Array.new(1_000_000) { Object.new }\n#{RACKUP}")
    connect(command.port).write(format(GET, "/collect-on"))
    command.wait_for(/collecting on$/)
    light = connect(command.port)
    assert_equal "abaca spare", light.call(format(GET, "/loop")).body
    5.times { light.call(format(GET, "/sleep")) }
    command.signal(:WINCH)
    refute_nil command.wait_for(%r{a request \(GET /collect-on\) has kept its loop})
  end

  # They wait in a call that has given up Ruby's lock, so that no thread is left which could make a loop.
  def test_others_go_on_while_all_loops_wait_outside_of_ruby
    File.open(File.join(@directory, "lock"), "w") do |lock|
      lock.flock(File::LOCK_EX)
      command = run_abaca(RACKUP)
      waiting = Array.new(3) { connect(command.port).tap { |client| client.write(format(GET, "/lock")) } }
      assert_equal "/", connect(command.port).call(format(GET, "/")).body
      assert(waiting.all? { |client| client.silent?(0) })
      lock.flock(File::LOCK_UN)
      waiting.each { |client| assert_equal "/lock", client.read.body }
      command.signal(:TERM)
      assert_equal 0, command.wait.exitstatus
    end
  end

  # It is tried again a second later; until then the engine goes on alone.
  def test_a_spare_loop_that_cannot_be_made
    command = run_abaca(<<~RUBY + RACKUP)
      tries = 0
      Abaca::Server.prepend(Module.new { define_method(:serve_beside) { (tries += 1) == 1 ? raise("no loop") : super() } })
    RUBY
    burners = burn(command, 1)
    assert_equal "abaca spare", connect(command.port).call(format(GET, "/loop")).body
    command.signal(:WINCH)
    assert_burnt(burners)
    command.wait_for(/no loop/)
  end

  def test_exit_on_a_spare_loop_ends_the_server
    command = run_abaca(RACKUP)
    burn(command, 1)
    on_spare_loop(command)
    connect(command.port).write(format(GET, "/exit"))
    command.wait_for(/exiting/)
    command.signal(:WINCH)
    assert_equal 7, command.wait.exitstatus
  end

  def test_a_child_that_is_forked_on_a_spare_loop
    command = run_abaca(RACKUP)
    burners = burn(command, 1)
    on_spare_loop(command)
    assert_equal "3", connect(command.port).call(format(GET, "/fork")).body
    assert_equal "9", connect(command.port).call(format(GET, "/fork-exit")).body
    command.signal(:WINCH)
    assert_burnt(burners)
    command.signal(:TERM)
    assert_equal 0, command.wait.exitstatus
  end

  def test_a_stop_waits_for_what_is_on_all_loops
    command = run_abaca(RACKUP)
    burners = burn(command, 2)
    on_spare_loop(command)
    command.signal(:TERM)
    command.wait_for(/Gracefully stopping/)
    command.signal(:WINCH)
    assert_burnt(burners)
    assert_equal 0, command.wait.exitstatus
  end

  def test_a_halt_ends_all_loops
    command = run_abaca(RACKUP)
    burn(command, 2)
    on_spare_loop(command)
    connect(command.port).write(format(GET, "/sleep"))
    [/Gracefully stopping/, /Stopping immediately/].each do |answer|
      command.signal(:TERM)
      command.wait_for(answer)
    end
    command.signal(:WINCH)
    assert_equal 0, command.wait.exitstatus
  end

  private

  # On which loop a request is served that comes while another one has all objects collected.
  def loop_beside_a_collection(command, number)
    collecting, light = Array.new(2) { connect(command.port) }
    collecting.write(format(GET, "/collect?#{number}"))
    command.wait_for(/collecting #{number}$/)
    light.call(format(GET, "/loop")).body.tap { assert_equal "/collect", collecting.read.body }
  ensure
    [collecting, light].each { |client| client&.close }
  end

  # `count` clients whose requests compute for `seconds`, or until the process gets WINCH; `begun` of them have begun.
  def burn(command, count, seconds: 60, begun: count)
    bytes = format(GET, "/burn?#{seconds}")
    clients = Array.new(count) { connect(command.port, timeout: 60).tap { |client| client.write(bytes) } }
    command.wait_for(/(?:burning.*?){#{begun}}/m)
    clients
  end

  # The median of 7 requests.
  def seconds_of_a_request(client)
    client.call(format(GET, "/light"))
    times = Array.new(7) do
      sleep 0.002
      started = now
      assert_equal "/light", client.call(format(GET, "/light")).body
      now - started
    end
    times.sort[3]
  end

  def assert_burnt(burners)
    burners.each { |client| assert_equal "/burn", client.read.body }
  end

  # Waits until requests run on a spare loop.
  def on_spare_loop(command)
    deadline = now + 20
    client = connect(command.port)
    until client.call(format(GET, "/loop")).body == "abaca spare"
      flunk "no spare loop leads" if now > deadline
    end
  end

  # Requests of several kinds while the others compute, which end it afterwards.
  # until_told: they ask on until the server has logged that, for as long as a machine needs that is busy with others.
  def assert_others_go_on(command, until_told: //)
    client = connect(command.port)
    answers = { "/light" => "/light", "/sleep" => "/sleep", "/stream" => "0\n1\n2\n3\n4\n" }
    times = Array.new(5) do
      answers.map do |path, body|
        started = now
        assert_equal body, client.call(format(GET, path)).body
        now - started
      end
    end
    assert(eventually { client.call(format(GET, "/light")) && command.text.match?(until_told) }, command.text)
    command.signal(:WINCH)
    assert_operator times.flatten.sort[times.flatten.size / 2], :<, BOUND
  end
end
