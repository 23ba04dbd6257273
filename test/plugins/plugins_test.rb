# frozen_string_literal: true

require "test_helper"
require "abaca/puma/options"
require "support/cluster_case"

# Plugins that were made for Puma, as the command runs them.
class PluginsTest < Minitest::Test
  include ClusterCase

  # The first lines of a configuration file that has plugins of its own.
  CONFIG = "$LOAD_PATH.unshift File.join(__dir__, 'plugins')\n"

  # Tells of its life.
  TELLER = <<~'RUBY'
    require "puma/plugin"

    module Puma
      class DSL
        def teller_words(*words) = @options[:teller_words] = words
        def teller_port(number) = port(number)
      end
    end

    Puma::Plugin.create do
      def config(dsl) = dsl.tag("told")

      def start(launcher)
        writer = launcher.log_writer
        writer.log "start #{launcher.options.fetch(:teller_words).inspect} of #{launcher.config.options[:tag]}"
        in_background { writer.log "background #{Puma.stats_hash.key?(:started_at)}" }
        launcher.events.on_booted { writer.log "booted" }
        launcher.events.before_restart { writer.log "before_restart" }
        launcher.events.after_stopped { writer.log "stopped" }
      end
    end
  RUBY

  def setup
    super
    FileUtils.mkdir_p(File.join(@directory, "plugins/puma/plugin"))
  end

  def plugin(name, text) = File.write(File.join(@directory, "plugins/puma/plugin/#{name}.rb"), text)

  # What the plugin has told so far, without the ids of processes.
  def told(command)
    command.text.scan(/^(?:\[\d+\] )?((?:start|background|booted|before_restart|stopped)\b.*)$/).flatten
  end

  LIFE = ["start [\"a\"] of told", "booted", "background true", "stopped"].freeze

  def test_the_life_of_a_plugin
    plugin "teller", TELLER
    [0, 2].each do |workers|
      command = run_abaca(APP, config: "#{CONFIG}plugin :teller\nteller_words 'a'\nworkers #{workers}")
      command.wait_for(/background true/)
      assert_equal 0, finish(command)
      assert_equal LIFE.sort, told(command).sort, command.text
      assert_equal "stopped", told(command).last
    end
  end

  def test_options_by_pumas_names
    settings = { threads: [2, 7], max_requests_per_connection: 0, max_body_size: 0, idle_timeout: 0,
                 shutdown_timeout: nil }
    options = Abaca::PumaOptions.new({ mine: 1 }) { |name| settings.fetch(name) }
    names = %i[min_threads max_threads max_keep_alive http_content_length_limit idle_timeout force_shutdown_after mine]
    assert_equal [2, 7, Float::INFINITY, nil, nil, -1, 1], names.map { |name| options[name] }
    settings.update(max_requests_per_connection: 8, max_body_size: 9, idle_timeout: 1.5, shutdown_timeout: 3.0)
    assert_equal [2, 7, 8, 9, 1.5, 3.0, 1], names.map { |name| options[name] }
  end

  # The flag counts before the file, which may use the plugin's settings; settings may call those of the server.
  def test_a_plugin_of_the_command_line
    plugin "teller", TELLER
    File.write(File.join(@directory, "own.rb"), "teller_words 'b'\nclear_binds!\nteller_port 0\n")
    command = start_abaca("-I", File.join(@directory, "plugins"), "--plugin", "teller", "-C", "own.rb",
                          "--check-config")
    assert_equal 0, command.wait.exitstatus
    assert_match(/^plugins +"teller" +command line$/, command.text)
    assert_match(%r{^binds +tcp://127.0.0.1:0 }, command.text)
  end

  # Without the app of a child that has the new code, there is nothing to tell twice: only one process has the plugin.
  def test_a_hot_restart_has_one_plugin_at_a_time
    plugin "teller", TELLER
    command = run_abaca(APP, config: "#{CONFIG}plugin :teller\nteller_words 'c'")
    command.wait_for(/background true/)
    command.signal(:USR2)
    command.wait_for(/background true.*background true/m)
    assert_equal 0, finish(command)
    first = LIFE.map { |line| line.sub('"a"', '"c"') }
    expected = [*first[..-2].sort, "before_restart", *first[..-2].sort, "stopped"]
    all = told(command)
    assert_equal expected, [*all[0, 3].sort, all[3], *all[4, 3].sort, *all[7..]], command.text
  end

  def test_a_phased_restart
    plugin "teller", TELLER
    command = run_cluster(config: "#{CONFIG}plugin :teller\nteller_words 'd'\nworkers 2\npreload_app! false")
    command.wait_for(/background true/)
    command.signal(:USR1)
    command.wait_for(/before_restart.*\bbooted$/m)
    assert_equal 0, finish(command)
    assert_equal %w[before_restart booted stopped], told(command).last(3)
  end

  # One that fails says what will not happen, and the server serves.
  def test_plugins_that_fail
    plugin "raises", "require 'puma/plugin'\nPuma::Plugin.create { def start(_) = raise('no license') }"
    plugin "broken", "require 'no/such/file'"
    plugin "yabeda", <<~RUBY
      require "puma/plugin"
      Puma::Plugin.create do
        def start(launcher)
          launcher.events.after_booted { raise "nobody listens" }
          in_background { raise IOError, "closed" }
        end
      end
    RUBY
    plugin "solid_queue", "require 'puma/plugin'\nPuma::Plugin.create { }"
    command = run_abaca(APP, config: "#{CONFIG}plugin :raises\nplugin :broken\nplugin :yabeda\nplugin :nobody\n" \
                                     "nobody_at 5\nplugin :solid_queue\n" \
                                     "Object.const_set(:PumaWorkerKiller, Module.new)")
    assert_equal command.pid, ask(command).to_i
    command.wait_for(/its thread has failed/)
    assert_equal 0, finish(command)
    nothing = "what it does will not happen"
    [
      "plugin raises is not run: no license (RuntimeError); #{nothing}",
      "settings.rb:3: plugin broken is not run: cannot load such file -- no/such/file (LoadError); #{nothing}",
      "plugin yabeda: after_booted failed: nobody listens (RuntimeError) at ",
      "plugin yabeda: its thread has failed: closed (IOError) at ",
      "; Yabeda gets no figures of the server",
      "settings.rb:5: plugin nobody is not run: there is no puma/plugin/nobody.rb in the bundle; #{nothing}",
      "settings.rb:6: `nobody_at' has no effect: plugin nobody is not run",
      "plugin solid_queue is not run: SolidQueue is not loaded in this process; jobs will not be processed",
      "puma_worker_killer finds no workers, and replaces none: set worker_max_memory"
    ].each { |line| assert_includes command.text, line }
  end

  # The listening sockets of a port.
  def listeners(port)
    lines = File.readlines("/proc/net/tcp").grep(/:#{format('%04X', port)} 0{8}:0000 0A/)
    lines.map { |line| "socket:[#{line.split[9]}]" }
  end

  def descriptors(pid) = Dir["/proc/#{pid}/fd/*"].map { |fd| File.readlink(fd) }

  # It has its child to itself: its end, and none of the server's sockets.
  def test_a_process_of_a_plugin
    plugin "worker", <<~'RUBY'
      require "puma/plugin"
      Puma::Plugin.create do
        def start(launcher)
          launcher.events.after_booted do
            reader, writer = IO.pipe
            pid = fork { writer.close; reader.read; exit! 7 }
            launcher.log_writer.log "child #{pid}"
            sleep 0.05 until File.exist?("done")
            writer.close
            launcher.log_writer.log "status #{Process.wait2(pid).last.exitstatus}"
          end
        end
      end
    RUBY
    command = run_cluster(config: "#{CONFIG}plugin :worker\nworkers 1\nsilence_single_worker_warning", count: 1)
    child = command.wait_for(/child (\d+)$/)[1]
    sockets = listeners(command.port)
    refute_empty sockets & descriptors(command.pid)
    assert eventually { !sockets.intersect?(descriptors(child)) }
    File.write(File.join(@directory, "done"), "")
    command.wait_for(/status 7/)
    assert_equal 0, finish(command)
  end

  # As that of Solid Queue: it ends its process before a restart, and stops the server when it finds it gone.
  QUEUE = <<~'RUBY'
    require "puma/plugin"

    Puma::Plugin.create do
      attr_reader :solid_queue_supervisor

      def start(launcher)
        in_background { watch(launcher) while sleep(0.01) }
        launcher.events.after_booted do
          reader, @writer = IO.pipe
          @pid = fork { @writer.close; reader.read; exit! }
          launcher.log_writer.log "queue #{@pid}"
        end
        launcher.events.before_restart do
          finish
          @solid_queue_supervisor = Struct.new(:log).new(launcher.log_writer).tap do |supervisor|
            def supervisor.stop = log.log("supervisor stops")
          end
        end
        launcher.events.after_stopped { finish }
      end

      def finish
        @writer.close
        Process.wait(@pid)
      end

      def watch(_launcher)
        Process.waitpid(@pid, Process::WNOHANG)
      rescue Errno::ECHILD
        Process.kill(:INT, Process.pid)
      end
    end
  RUBY

  # The thread that watches does not take that for the end, and nothing runs twice.
  def test_a_queue_at_a_refork
    need_platform(:subreaper)
    plugin "solid_queue", QUEUE
    command = run_cluster(config: "#{CONFIG}Object.const_set(:SolidQueue, Module.new)\n" \
                                  "plugin :solid_queue\nworkers 2\nfork_worker 0")
    first = command.wait_for(/queue (\d+)$/)[1]
    command.signal(:URG)
    command.wait_for(/supervisor stops.*Starting worker refork.*queue \d+$/m)
    refute alive?(first)
    assert_equal 0, finish(command)
    refute_match(/Gracefully.*Gracefully|immediately/m, command.text)
    assert_equal 2, command.text.scan(/queue \d+$/).size
  end
end
