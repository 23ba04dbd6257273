# frozen_string_literal: true

require "test_helper"
require "json"
require "open3"
require "cli/command"
require "abaca"
require "support/programs"
require "support/tmux"

# `abaca top` and servers that run.
class TopCommandTest < Minitest::Test
  include Command
  include Programs

  CONFIG = <<~RUBY
    port 0
    workers 2
    state_path "state"
    pidfile "pid"
    tag "shop"
    activate_control_app "unix://control.sock", auth_token: "secret"
  RUBY
  APP = 'run ->(_env) { [200, {}, ["done"]] }'

  def serve(config = CONFIG)
    file("config.ru", APP)
    file("config/abaca.rb", config)
    start.tap(&:port)
  end

  def top(*words) = run_command("top", "-d", "0.2", *words)

  # Each way to name a server.
  def test_which_server
    server = serve
    [[], [server.pid.to_s], %w[-S state], %w[-P pid -F -], %w[-C unix://control.sock -T secret]].each do |words|
      ended = top(*words)
      assert_equal [0, ""], [ended.status, ended.err], words.inspect
      assert_match(%r{\Aabaca #{Abaca::VERSION} shop  up \d+s  2/2 workers  }, ended.out)
    end
  end

  def test_one_page_without_a_terminal
    serve
    lines = top.out.lines(chomp: true)
    assert_equal Abaca::Sight::SCREENS.values.map(&:title), lines & Abaca::Sight::SCREENS.values.map(&:title)
    assert_operator lines.map(&:size).max, :<=, 80
    refute_match(/\e/, lines.join)
    two = top("-n", "2", "--screen", "workers").out
    assert_equal [2, 2], [two.scan(/^abaca /).size, two.scan(" PID STATE ").size]
    refute_match(/Requests/, two)
  end

  def test_json
    server = serve
    3.times { server.get("/") }
    ended = top("--json", "-n", "3")
    looks = ended.out.lines.map { |line| JSON.parse(line) }
    assert_equal [1, 1, 1], looks.map { |look| look["v"] }
    assert_equal %w[shop 2 2], looks[0]["overview"].values_at("tag", "ready", "workers").map(&:to_s)
    rows = looks[2]["screens"]["workers"]["rows"]
    assert_equal [0, 1], rows.map { |row| row["worker"] }.sort
    assert_includes 0.15..20, looks[2]["seconds"]
    assert_equal %w[workers], JSON.parse(top("--json", "--screen", "workers").out)["screens"].keys
  end

  # The master, and all workers: nobody is asked.
  def test_all_processes_are_stopped
    need_platform(:proc)
    server = serve
    pids = JSON.parse(top("--json").out)["screens"]["workers"]["rows"].map { |row| row["pid"] }
    [server.pid, *pids].each { |pid| Process.kill(:STOP, pid) }
    sleep 0.2
    found = JSON.parse(top("--json").out)
    assert_equal [server.pid, *pids].sort, found["overview"]["stopped"].sort
    assert_equal %w[stopped stopped], found["screens"]["workers"]["rows"].map { |row| row["state"] }
    sleep 3.2
    assert_match(/^STALL  worker \d  \S+  process \d+ is stopped$/, top.out)
  ensure
    [server&.pid, *pids].compact.each { |pid| Process.kill(:CONT, pid) }
  end

  # A memory of the same name, with a head of another layout.
  def test_a_page_of_another_version
    need_platform(:proc)
    other = <<~RUBY
      number = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
      file = File.open("/dev/shm/abaca-page-of-a-test-\#{Process.pid}-\#{number}", "w+")
      File.delete(file.path)
      file.write(["abacapag", 99, 4096, 4096, 1, 8192].pack("a8LLLLQ").ljust(8192, "\\0"))
      file.flush
      puts "ready"
      $stdout.flush
      sleep
    RUBY
    IO.popen([RbConfig.ruby, "-e", other]) do |child|
      child.gets
      ended = top(child.pid.to_s)
      assert_equal [1, "", 1], [ended.status, ended.out, ended.err.lines.size]
      assert_match(/\Aabaca: the page has layout 99, and this version of Abaca reads layout \d+\Z/, ended.err)
    ensure
      Process.kill(:TERM, child.pid)
    end
  end

  def test_mistakes
    { %w[0] => /is not a process id/, %w[1 2] => /one process only/, %w[-n -1] => /0 or more/,
      %w[-d 60 1] => /0\.2 to 10/, %w[--screen none] => /invalid argument/, [Process.pid.to_s] => /has no page/,
      %w[-S none] => /State file not found/, %w[-C unix://none] => /no control server/,
      %w[999999999] => /there is no process/ }.each do |words, message|
      ended = run_command("top", *words)
      assert_equal [1, 1], [ended.status, ended.err.lines.size], ended.err
      assert_match(/\Aabaca: .*#{message}/, ended.err)
    end
    assert_match(/Usage: abaca top/, run_command("top", "--help").out)
    assert_match(/abaca top \[options\] \[PID\]/, run_command("--help").out)
  end

  # What the control server does.
  def test_at_a_terminal
    need_program("tmux")
    serve
    terminal = Tmux.new(*Command.words(["top", "-S", "#{@dir}/state"]))
    terminal.wait_for(/^2 rows/)
    terminal.press("?")
    terminal.wait_for(/^d +dump/)
    terminal.press("q")
    terminal.wait_for(/^2 rows/)
    terminal.press("d")
    terminal.wait_for(/^dump/)
  ensure
    terminal&.close
  end
end
