# frozen_string_literal: true

# also: rubies

require "test_helper"
require "abaca"
require "io/wait"
require "rbconfig"

# Signals between two programs of one process, without a server.
class HeldSignalsTest < Minitest::Test
  EXECS = Integer(ENV.fetch("HELD_EXECS", "4"))
  SECONDS = 20
  # Executes itself as often as its argument says, and says what it gets. Its other threads sleep: the kernel gives
  # signals to them while the main thread blocks them.
  PROGRAM = <<~'RUBY'
    require "abaca"
    $stdout.sync = true
    left = Integer(ARGV.first)
    signals = Abaca::Launcher::Signals.new
    threads = Array.new(4) { Thread.new { sleep } }
    ended = false
    actions = %w[USR1 USR2 HUP URG].to_h { |name| [name, -> { $stdout.syswrite("#{name}\n") }] }
    signals.trap(**actions, "TERM" => -> { ended = true })
    $stdout.syswrite("ready\n")
    sleep 0.02
    signals.hold do
      sleep 0.02
      words = [RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, __FILE__, (left - 1).to_s]
      Process.exec(signals.for_next(ENV.to_h), *words) if left.positive?
      Process.exec("/no/such/program") if left.negative?
    rescue Errno::ENOENT
      $stdout.syswrite("no program\n")
    end
    $stdout.syswrite("last\n")
    sleep 0.01 until ended
  RUBY

  def setup
    super
    need_platform(:held_signals)
    @dir = Dir.mktmpdir("abaca")
    File.write("#{@dir}/program.rb", PROGRAM)
  end

  def teardown
    FileUtils.remove_entry(@dir) if @dir
    super
  end

  # Yields a process that runs the program, and the lines that it writes.
  def run_program(left)
    includes = $LOAD_PATH.map { |path| "-I#{path}" }
    IO.popen([RbConfig.ruby, *includes, "#{@dir}/program.rb", left.to_s], err: %i[child out]) do |output|
      yield output.pid, output
    ensure
      Process.kill(:KILL, output.pid)
    end
  end

  def line(output)
    assert output.wait_readable(SECONDS), "a signal is lost"
    output.gets.chomp
  end

  # Sends one after the other, each when the one before has been acted on, until the program has executed itself for
  # the last time.
  def assert_each_is_acted_on(left)
    run_program(left) do |pid, output|
      counts = Hash.new(0)
      said = [line(output)]
      until said.include?("last")
        name = %w[USR1 USR2 HUP URG].sample
        Process.kill(name, pid)
        counts[name] += 1
        loop { break if said.push(line(output)).last == name }
        sleep rand * 0.01
      end
      Process.kill(:TERM, pid)
      said.concat(output.read.lines(chomp: true))
      assert_equal counts, said.grep(/\A[A-Z]+[12]?\z/).tally
      said
    end
  end

  def test_while_a_program_executes_others = assert_each_is_acted_on(EXECS)

  # They get back to the handlers.
  def test_a_program_that_is_not_executed
    assert_each_is_acted_on(0)
    assert_includes assert_each_is_acted_on(-1), "no program"
  end
end
