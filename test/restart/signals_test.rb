# frozen_string_literal: true

require "test_helper"
require "abaca"
require "support/cluster_case"

# Signals that come while a hot restart executes the new program: each of them is acted on, once.
class RestartSignalsTest < Minitest::Test
  include ClusterCase

  # What the process says of each signal that it acts on.
  NOTES = <<~'RUBY'
    Abaca::Launcher.prepend(Module.new do
      def actions = super.to_h { |name, action| [name, -> { $stdout.syswrite("acted on #{name}\n") && action.call }] }
    end)
  RUBY
  FILES = <<~RUBY
    bind "tcp://127.0.0.1:0"
    bind "unix://socket"
    pidfile "pid"
    state_path "state"
    activate_control_app "unix://control", { auth_token: "secret" }
  RUBY
  LEFT = %w[socket pid state control].freeze
  # So that HUP does not stop the server.
  LOG = "stdout_redirect 'output.0', 'output.0', true\n"
  # Sends the signals that a file has, once, to the process that it names, from a child of that.
  SEND = <<~'RUBY'
    process, *names = File.read("signals").split if File.exist?("signals")
    if process == Process.pid.to_s
      File.delete("signals")
      names.each { |name| system("kill", "-#{name}", process) }
    end
  RUBY
  SINGLE = ["HUP", "USR2", "URG", Abaca::Launcher::Signals::DUMP].freeze
  MASTER = [*SINGLE, "USR1", "TTIN", "TTOU"].freeze
  KINDS = { "single" => ["", SINGLE], "cluster" => ["workers 2\npreload_app!", MASTER],
            "without_a_stand_in" => ["restart_overlap false", SINGLE] }.freeze
  # Where the new program is when they come.
  MOMENTS = { "while_ruby_boots" => "boot.rb", "in_the_configuration" => "settings.rb",
              "while_the_app_loads" => "config.ru" }.freeze

  KINDS.each do |kind, (config, names)|
    MOMENTS.each do |moment, file|
      define_method("test_#{kind}_#{moment}") do
        need_platform(:held_signals)
        with_server("#{LOG}#{config}", file) do |command|
          restart_with(command, names)
          assert eventually { (names - acted_on(command)).empty? }, command.text
          assert_equal 0, finish(command), command.text
          assert_equal ["USR2", *names].tally, acted_on(command).tally.except("TERM", "CHLD")
          assert_nothing_left(command)
        end
      end

      define_method("test_term_#{kind}_#{moment}") do
        need_platform(:held_signals)
        with_server(config, file) do |command|
          restart_with(command, %w[TERM])
          assert_equal 0, command.wait.exitstatus, command.text
          assert_nothing_left(command)
        end
      end
    end
  end

  # The first is TERM here, and comes when nothing restarts yet; so does the other one.
  def test_a_stop_and_a_restart_while_the_new_program_boots
    need_platform(:held_signals)
    with_server("restart_overlap false", "boot.rb") do |command|
      restart_with(command, %w[HUP USR2])
      assert_equal 0, command.wait.exitstatus, command.text
      assert_equal %w[USR2 HUP USR2], acted_on(command)
      assert_nothing_left(command)
    end
  end

  # What was to go on with the new program ends with the old one.
  def test_term_while_the_process_drains
    ["", "restart_overlap false"].each do |config|
      with_server(config, nil, "run ->(_env) { [200, {}, [sleep(1).to_s]] }") do |command|
        client = connect(command.port).write(GET)
        sleep 0.2
        command.signal(:USR2)
        command.wait_for(/Gracefully/)
        command.signal(:TERM)
        assert_equal [200, 0], [client.read.status, command.wait.exitstatus], command.text
        assert_nothing_left(command)
      end
    end
  end

  # What the app starts has no signals blocked, and finds nothing of the restart in its environment.
  def test_masks_and_environment
    write("version", "1")
    with_server("", nil, <<~'RUBY') do |command|
      mask = -> { File.read("/proc/thread-self/status")[/^SigBlk:\s+(\h+)/, 1].to_i(16) }
      forked = lambda do
        reader, writer = IO.pipe
        Process.wait(fork { writer.write(mask.call) })
        reader.read_nonblock(100).to_i
      end
      masks = [mask.call, Thread.new { mask.call }.value, forked.call, Thread.new { forked.call }.value,
               `grep SigBlk /proc/self/status`[/\h+$/].to_i(16)]
      left = ENV.slice("ABACA_HELD", "LD_PRELOAD")
      version = File.read("version")
      run ->(_env) { [200, {}, ["#{version} #{masks} #{left}"]] }
    RUBY
      write("version", "2")
      command.signal(:USR2)
      command.wait_for(/Use Ctrl-C.*Use Ctrl-C/m)
      assert_equal "2 [0, 0, 0, 0, 0] #{ENV.slice("LD_PRELOAD")}", ask(command)
      assert_equal 0, finish(command)
    end
  end

  # As before there was a way to hold them: what would end the process is ignored.
  def test_where_signals_cannot_be_held
    with_server("Abaca::Launcher::Signals.define_method(:library) { nil }", "boot.rb") do |command|
      restart_with(command, SINGLE)
      command.wait_for(/Use Ctrl-C.*Use Ctrl-C/m)
      assert_equal "fine", ask(command)
      assert_equal %w[USR2], acted_on(command)
      assert_equal 0, finish(command), command.text
      assert_nothing_left(command)
    end
  end

  private

  def with_server(config, file, app = 'run ->(_env) { [200, {}, ["fine"]] }')
    texts = { "config.ru" => app, "settings.rb" => "#{NOTES}#{FILES}#{config}",
              "boot.rb" => "" }
    texts.each { |name, text| write(name, name == file ? "#{SEND}#{text}" : text) }
    options = "-r#{@directory}/boot.rb #{ENV.fetch('RUBYOPT', '')}"
    command = start_abaca("-C", "settings.rb", env: { "RUBYOPT" => options })
    command.wait_for(/Use Ctrl-C/)
    yield command
  end

  def write(name, text) = File.write(File.join(@directory, name), text)

  # Begins a restart, in the middle of which the process gets these signals.
  def restart_with(command, names)
    write("signals", [command.pid, *names].join(" "))
    command.signal(:USR2)
  end

  def acted_on(command) = command.text.scan(/^acted on (\w+)$/).flatten

  # The stand-in removes the socket's file when it finds that the process has ended.
  def assert_nothing_left(command)
    assert eventually { LEFT.none? { |name| File.exist?(File.join(@directory, name)) } }, command.text
  end
end
