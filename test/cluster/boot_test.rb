# frozen_string_literal: true

require "test_helper"
require "support/cluster_case"

# Master and workers: from the boot to the end.
class ClusterBootTest < Minitest::Test
  include ClusterCase

  HOOKS = <<~RUBY
    def note(*words) = File.open(File.expand_path("notes", __dir__), "a") { |file| file.puts(words.join(" ")) }

    workers 2
    $master = Process.pid
    where = -> { Process.pid == $master ? "master" : "worker" }
    before_fork { |given| note "before_fork", where.call, given.inspect }
    on_worker_fork { |index| note "before_worker_fork", where.call, index }
    after_worker_fork { |index| note "after_worker_fork", where.call, index }
    before_worker_boot(:store) { |index, data| note "before_worker_boot", where.call, index, data.inspect; data[:a] = index }
    on_worker_boot(:store) { |index, data| note "again", where.call, index, data[:a] }
    before_worker_boot { raise "a hook that fails" }
    before_worker_shutdown { |index| note "before_worker_shutdown", where.call, index }
    after_worker_shutdown do |worker|
      note "after_worker_shutdown", where.call, worker.index, worker.pid.positive?, worker.phase,
           worker.process_status.exitstatus, worker.started_at.class
    end
    after_booted { note "after_booted", where.call }
    after_stopped { note "after_stopped", where.call }
  RUBY
  FACTS = <<~'RUBY'
    File.write("loaded", "#{Process.pid}\n", mode: "a")
    require "securerandom"
    run(lambda do |env|
      facts = [Process.pid, Process.ppid, env["rack.multiprocess"], rand(2**64), SecureRandom.hex(8)]
      [200, { "content-type" => "text/plain" }, [facts.join(" ")]]
    end)
  RUBY

  def notes = File.readlines(File.join(@directory, "notes"), chomp: true)

  def loaded = File.readlines(File.join(@directory, "loaded")).map(&:to_i)

  # What each of the two workers answers first.
  def facts(command)
    found = {}
    assert(eventually do
      facts = ask(command).split
      found[facts.first.to_i] ||= facts
      found.size == 2
    end)
    found.values
  end

  def test_preloaded
    command = run_cluster(FACTS, "--tag", "shop")
    assert_includes command.text, "[#{command.pid}] Abaca starting in cluster mode..."
    assert_match(/starting in cluster.*Preloading application.*Listening on.*Use Ctrl-C/m, command.text)
    assert_includes command.text, "[#{command.pid}] *   Master PID: #{command.pid}\n"
    assert_includes command.text, "*      Workers: 2\n"
    assert_equal [command.pid], loaded
    assert_equal [[0, 0], [1, 0]], booted(command).map { |worker| [worker.index, worker.phase] }.sort
    booted(command).each do |worker|
      title = File.read("/proc/#{worker.pid}/cmdline").delete("\0")
      assert_equal "abaca: cluster worker #{worker.index}: #{command.pid} [shop]", title
    end
    all = facts(command)
    assert_equal booted(command).map(&:pid).sort, all.map { |facts| facts[0].to_i }.sort
    assert_equal [[command.pid.to_s, "true"]], all.map { |facts| facts[1, 2] }.uniq
    assert_equal 2, all.map { |facts| facts[3] }.uniq.size
    assert_equal 2, all.map { |facts| facts[4] }.uniq.size
    assert_equal 0, finish(command)
    assert_match(/Gracefully shutting down workers.*Goodbye!/m, command.text)
  end

  # Of threads that end with the fork, those are named that nothing starts anew.
  def test_threads_of_a_preloaded_app
    command = run_cluster(<<~RUBY, config: "workers 2")
      ["AR Pool Reaper", "a poller", "marked"].each do |name|
        Thread.new { sleep }.tap { |thread| thread.name = name }.thread_variable_set(:fork_safe, name == "marked")
      end
      #{FACTS}
    RUBY
    assert_match(/detected 1 thread\(s\) started in app boot, which workers will not have: a poller$/, command.text)
    assert_equal 0, finish(command)
  end

  def test_not_preloaded
    command = run_cluster(FACTS, config: "workers 2\npreload_app! false")
    command.signal(:URG)
    command.wait_for(/refork called but not available/)
    assert_equal booted(command).map(&:pid).sort, loaded.sort
    refute_includes command.text, "Preloading"
    assert_equal 0, finish(command)
  end

  def test_hooks
    command = run_cluster(config: HOOKS)
    command.wait_for(/a hook that fails.*a hook that fails/m)
    assert(eventually { notes.include?("after_booted master") })
    assert_equal ["before_fork master nil", "before_worker_fork master 0"], notes.first(2)
    assert_equal "after_booted master", notes.last
    [0, 1].each do |index|
      assert_equal ["before_worker_fork master #{index}", "after_worker_fork master #{index}"],
                   notes.grep(/worker_fork .* #{index}/)
      assert_equal ["before_worker_boot worker #{index} {}", "again worker #{index} #{index}"],
                   notes.grep(/(boot|again) worker #{index}/)
    end
    at = notes.size
    assert_equal 0, finish(command)
    last = notes.drop(at)
    assert_equal "after_stopped master", last.pop
    [0, 1].each do |index|
      assert_equal ["before_worker_shutdown worker #{index}", "after_worker_shutdown master #{index} true 0 0 Time"],
                   last.grep(/shutdown \w+ #{index}\b/)
    end
  end

  def test_an_app_that_does_not_load
    command = run_abaca("raise 'broken'", config: "workers 2")
    assert_equal 1, command.wait.exitstatus
    assert_match(/cannot load config.ru: broken \(RuntimeError\)/, command.text)
    refute_match(/Listening/, command.text)
  end

  # As in Puma, the master tries again, since another process may repair the app.
  def test_an_app_that_does_not_load_in_a_worker
    command = run_abaca("raise 'broken' unless File.exist?('repaired')\n#{APP}",
                        config: "workers 1\npreload_app! false")
    command.wait_for(/worker 0 cannot start: cannot load config.ru: broken/)
    command.wait_for(/workers do not boot; the next try is in 1 s/)
    File.write(File.join(@directory, "repaired"), "")
    wait_for_workers(command, 1)
    assert_equal running(command).first.pid, ask(command).to_i
    assert_equal 0, finish(command)
  end

  # Not every exception is a StandardError.
  def test_exceptions_of_any_kind
    command = run_cluster("run ->(_) { [200, {}, []] }", config: <<~RUBY)
      workers 2
      preload_app! false
      Object.const_set(:Stop, Class.new(Exception))
      before_fork { raise Stop, "in the master" }
      before_worker_boot { |index| raise Stop, "in worker \#{index}" }
    RUBY
    assert_match(/hook before_fork at settings.rb:4 failed: in the master \(Stop\)$/, command.text)
    [0, 1].each do |i|
      assert_match(/hook before_worker_boot at settings.rb:5 failed: in worker #{i} \(Stop\)$/, command.text)
    end
    assert_equal 0, finish(command)
    refute_match(/^\s+from /, command.text)
  end

  def test_a_worker_that_fails
    command = run_abaca(APP, config: <<~RUBY)
      workers 1
      before_worker_boot do
        abort("not today") if File.exist?("second")
        File.write("second", "")
        Abaca::Heart.singleton_class.prepend(Module.new { def beat(*) = raise(Exception, "broken") })
      end
    RUBY
    command.wait_for(/worker 0 has failed: Exception: broken\n(?:\[\d+\] )?    \S+:in/)
    command.wait_for(/^not today$/)
    command.wait_for(/Worker 0 \(PID: \d+\) has ended with status 1/)
    assert_equal 0, finish(command)
    refute_match(/^\s+from /, command.text)
  end

  # Booted or not, workers that end at once are not forked as fast as the machine can.
  def test_workers_that_do_not_last
    command = run_abaca(APP, config: "workers 1\nbefore_worker_boot { Thread.new { exit!(3) if sleep(0.1) } }")
    command.wait_for(/has ended with status 3.*workers fail as soon as they serve; the next try is in [12] s/m)
    assert_equal 0, finish(command)
  end

  def test_a_fork_that_fails
    command = run_cluster(config: <<~RUBY)
      workers 2
      before_fork do
        failing = Module.new { def fork = ($failures = $failures.to_i + 1) > 2 ? super : raise(Errno::EAGAIN) }
        Process.singleton_class.prepend(failing)
      end
    RUBY
    assert_match(/cannot fork a worker: Resource temporarily unavailable; the next try is in 1 s/, command.text)
    assert_equal 0, finish(command)
  end

  def test_children_that_are_no_workers_are_reaped
    need_platform(:proc)
    command = run_cluster(config: "workers 2\nbefore_fork { Process.spawn('true') }")
    command.wait_for(/reaped unknown child process pid=\d+/)
    assert_equal 0, finish(command)
  end

  def test_a_unix_socket
    path = File.join(@directory, "socket")
    command = run_cluster(APP, "-b", "unix://#{path}")
    assert File.socket?(path)
    Process.kill(:KILL, booted(command).first.pid)
    wait_for_workers(command, 3)
    assert File.socket?(path)
    assert_equal 0, finish(command)
    refute File.exist?(path)
  end
end
