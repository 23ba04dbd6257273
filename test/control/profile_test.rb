# frozen_string_literal: true

# also: rubies

require "test_helper"
require "json"
require "support/cluster_case"
require "abaca"
require "abaca/control"
require "abaca/control/cli"

# Profiles by the control server: of all workers, one at a time, and as long as somebody waits for them.
class ControlProfileTest < Minitest::Test
  include ClusterCase

  APP = <<~'RUBY'
    def wait_here
      sleep 0.05
    end

    def burn(seconds)
      ends = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
      nil while Process.clock_gettime(Process::CLOCK_MONOTONIC) < ends
    end

    run(lambda do |env|
      env["sinatra.route"] = "GET /</script>;<b>\e[31m" if env["PATH_INFO"] == "/hostile"
      wait_here until File.exist?("go") || env["PATH_INFO"] == "/burn"
      burn(0.3) if env["PATH_INFO"] == "/burn"
      [200, { "content-type" => "text/plain" }, ["ok"]]
    end)
  RUBY
  CONFIG = <<~RUBY
    state_path "state"
    activate_control_app "unix://control.sock", auth_token: "hush", operate_token: "work", read_token: "look"
    stall_report 0
  RUBY

  def abacactl(*words)
    out = StringIO.new
    err = StringIO.new
    [Abaca::Control::CLI.run(["-S", "#{@directory}/state", *words], out:, err:, env: {}), out.string, err.string]
  end

  # A server that can be asked: its line to the watch is there.
  def run_single
    run_abaca(APP, config: CONFIG).tap do |command|
      command.wait_for(/Use Ctrl-C/)
      assert(eventually { abacactl("-Q", "fibers")[1].include?('"pending":false') })
    end
  end

  # A connection to the control server on which a profile was asked for.
  def begin_profile(query, token: "work")
    UNIXSocket.new("#{@directory}/control.sock").tap do |socket|
      socket.write("POST /profile?#{query} HTTP/1.0\r\nAuthorization: Bearer #{token}\r\n\r\n")
    end
  end

  def end_of(socket)
    head, body = socket.read.split("\r\n\r\n", 2)
    [head[/\d{3}/].to_i, body, head]
  ensure
    socket.close
  end

  def profile(query, **options) = end_of(begin_profile(query, **options))

  # Requests that wait, some in each worker, while the block runs.
  def waiting(command, count, path = "/wait")
    sockets = Array.new(count) do
      TCPSocket.new("127.0.0.1", command.port).tap { |one| one.write(GET.sub("/", path)) }
    end
    assert(eventually { JSON.parse(abacactl("-Q", "requests")[1])["total"] == count })
    yield
  ensure
    File.write("#{@directory}/go", "")
    sockets&.each { |one| one.readpartial(1) && one.close }
    File.delete("#{@directory}/go")
  end

  # What the block returns, while one request after the other computes: whenever the profile begins, one is there.
  def burning(command)
    over = false
    thread = Thread.new { connect(command.port).call(GET.sub("/", "/burn")) until over }
    yield
  ensure
    over = true
    thread&.join
  end

  def log_of(command, pattern) = command.text.scan(pattern).size

  def test_waits_of_a_cluster
    command = run_cluster(APP, config: "#{CONFIG}workers 2\n")
    waiting(command, 6, "/hostile") do
      # The master takes no part in it.
      command.signal(:STOP)
      status, body, head = profile("seconds=0.5&kind=wait")
      assert_equal [200, 1], [status, body.lines.size]
      found = JSON.parse(body, symbolize_names: true)
      top = found[:stacks].first
      assert_equal ["config.ru:2 in wait_here", "sleep"], [top[:place].delete("`'").sub("Object#", ""), top[:state]]
      assert_equal 'GET /</script>;<b>\x1B[31m', top[:route]
      assert_in_delta 3.0, found[:total], 2.0
      assert_equal [[0, false], [1, false]], found[:workers].map { |one| one.values_at(:index, :pending) }
      refute_includes head, "Abaca-Missing"
    ensure
      command.signal(:CONT)
    end
    assert_equal 0, finish(command)
  end

  def test_by_abacactl
    command = run_single
    waiting(command, 2) do
      # Nothing but the answer: it goes to a file.
      status, out, err = abacactl("profile", "--seconds", "0.3")
      assert_equal [0, ""], [status, err]
      assert_match(/\AGET \(no route\);config\.ru:\d+ in .*wait_here';.*;\[sleep\] \d+\n/, out)
      out.lines.each { |line| assert_match(/;\[\w+\] \d+\n\z/, line) }
      assert_match(/\Arequests waited for/, abacactl("profile", "--seconds", "0.2", "--format", "text")[1])
      assert_match(%r{\A<\?xml.*<svg.*wait_here.*</svg>\n\z}m,
                   abacactl("profile", "--seconds", "0.2", "--format", "svg")[1])
      assert_equal 47, JSON.parse(abacactl("profile", "--seconds", "0.2", "--format", "firefox")[1])
                           .dig("meta", "preprocessedProfileVersion")
    end
    out = burning(command) { abacactl("profile", "--seconds", "0.6", "--kind", "stall")[1] }
    assert_match(/burn';.*\[run\] \d+/, out)
    assert_match(/burn'/, abacactl("profile", "--seconds", "0", "--kind", "stall", "--format", "text")[1])
    assert_equal 0, finish(command)
  end

  def test_what_is_refused
    command = run_single
    { "seconds=x" => /seconds: 0\.1 to 120 are needed/, "seconds=0" => /seconds/, "seconds=1e9" => /seconds/,
      "seconds=nan" => /seconds/, "kind=heap" => /kind: wait or stall/, "format=pdf" => /format: one of/ }
      .each do |query, why|
      status, body, = profile(query)
      assert_equal 422, status, query
      assert_match why, body
    end
    assert_equal 403, profile("seconds=1", token: "look").first
    assert_equal [1, "invalid argument: --kind heap\n"], abacactl("profile", "--kind", "heap").values_at(0, 2)
    assert_equal [1, "--seconds is for profile, not for stats\n"], abacactl("stats", "--seconds", "3").values_at(0, 2)
    assert_equal 0, log_of(command, /profile of/)
    assert_equal 0, finish(command)
  end

  def test_one_at_a_time_and_cancelled_when_the_asker_goes
    command = run_single
    first = begin_profile("seconds=60")
    command.wait_for(/wait profile of 60\.0 s/)
    status, body, = profile("seconds=1")
    assert_equal [409, "a profile is being taken: one at a time"], [status, JSON.parse(body)["error"]]
    assert_match(/\ACommand error: .*one at a time/, abacactl("profile", "--seconds", "1")[2])
    first.close
    # The next one has to wait for nothing but the end of the first.
    assert(eventually { profile("seconds=0.1").first == 200 })
    assert_equal 0, finish(command)
  end

  # One is killed meanwhile, and one does not run: the rest is there.
  def test_a_worker_that_does_not_answer_is_named
    command = run_cluster(APP, config: "#{CONFIG}workers 3\n")
    assert(eventually { booted(command).size == 3 })
    victim, stopped, other = booted(command).sort_by(&:index)
    assert(eventually { abacactl("-Q", "fibers")[1].scan('"pending":false').size == 3 })
    Process.kill(:STOP, stopped.pid)
    socket = begin_profile("seconds=0.5&format=collapsed")
    assert(eventually { log_of(command, /wait profile of 0\.5 s/) == 2 })
    Process.kill(:KILL, victim.pid)
    status, _, head = end_of(socket)
    assert_equal 200, status
    assert_match(/^Abaca-Missing: worker 0 \(process #{victim.pid}\), worker 1 \(process #{stopped.pid}\)\r?$/, head)
    refute_includes head, "process #{other.pid}"
    Process.kill(:CONT, stopped.pid)
    assert_equal 0, finish(command)
  end

  # The watch ends with a profile under way: its workers do not go on with it.
  def test_a_watch_that_ends
    command = run_single
    socket = begin_profile("seconds=60")
    command.wait_for(/wait profile of 60\.0 s/)
    Process.kill(:KILL, watch_of(command))
    assert_equal "", socket.read
    command.wait_for(/is started anew/)
    assert(eventually { profile("seconds=0.1").first == 200 })
    assert_equal 0, finish(command)
  ensure
    socket&.close
  end
end
