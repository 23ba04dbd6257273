# frozen_string_literal: true

require "test_helper"
require "abaca"

# Settings of workers, their hooks, and parts of a file for one process or several.
class ConfigWorkersTest < Minitest::Test
  HOOKS = {
    before_fork: [], before_worker_fork: %i[on_worker_fork], after_worker_fork: %i[after_worker_boot],
    before_worker_boot: %i[on_worker_boot], before_worker_shutdown: %i[on_worker_shutdown], after_worker_shutdown: [],
    before_refork: %i[on_refork], after_refork: [], before_restart: %i[on_restart], after_booted: %i[on_booted],
    after_stopped: %i[on_stopped], before_thread_start: %i[on_thread_start], before_thread_exit: %i[on_thread_exit],
    out_of_band: []
  }.freeze
  KEYED = %i[before_worker_boot before_worker_shutdown before_refork after_refork].freeze

  # The configuration of a file with this text.
  def load(text = "", options = {}, env: {})
    Dir.mktmpdir do |dir|
      @path = File.join(dir, "puma.rb")
      File.write(@path, text)
      return Abaca::Config::Loader.new(options, files: [@path], env:).load
    end
  end

  def failure(...) = assert_raises(Abaca::ConfigError) { load(...) }.message.sub(File.dirname(@path.to_s), "")

  def warnings(...) = load(...).warnings.map { |line| line.sub(@path, "puma.rb") }

  def test_defaults
    settings = load.to_h
    assert_equal [0, false, nil, 60.0, 60.0, 30.0, 5.0, :youngest],
                 settings.values_at(:workers, :preload_app, :fork_worker, :worker_timeout, :worker_boot_timeout,
                                    :worker_shutdown_timeout, :worker_check_interval, :worker_culling_strategy)
    HOOKS.each_key { |name| assert_equal [], settings.fetch(name) }
  end

  def test_values
    settings = load(<<~RUBY).to_h
      workers 3
      preload_app! false
      fork_worker
      worker_check_interval 0.5
      worker_timeout "3600"
      worker_boot_timeout 90
      worker_shutdown_timeout 1.5
      worker_culling_strategy "oldest"
    RUBY
    assert_equal [3, false, 1000, 3600.0, 90.0, 1.5, 0.5, :oldest],
                 settings.values_at(:workers, :preload_app, :fork_worker, :worker_timeout, :worker_boot_timeout,
                                    :worker_shutdown_timeout, :worker_check_interval, :worker_culling_strategy)
    assert_equal 0, load("fork_worker 0")[:fork_worker]
  end

  def test_mistakes
    assert_equal "/puma.rb:1: worker_culling_strategy: :youngest or :oldest is needed, not :best",
                 failure("worker_culling_strategy :best")
    assert_equal "/puma.rb:2: worker_timeout: 5 seconds are not more than worker_check_interval, 5.0",
                 failure("worker_check_interval 5\nworker_timeout 5")
    assert_equal "/puma.rb:1: worker_timeout: 4.0 seconds are not more than worker_check_interval, 5.0",
                 failure("worker_timeout 4")
    assert_equal "/puma.rb:1: worker_boot_timeout: seconds are needed, not 0", failure("worker_boot_timeout 0")
    assert_equal "/puma.rb:1: fork_worker: a number of requests is needed, 0 or more, not -1",
                 failure("fork_worker(-1)")
  end

  def test_preloading_is_for_several_workers
    preloads = ->(text) { load("silence_single_worker_warning\n#{text}")[:preload_app] }
    assert_equal [false, false, true, false, true, true],
                 ["workers 0", "workers 1", "workers 2", "workers 2; prune_bundler", "workers 1; preload_app!",
                  "workers 2; prune_bundler; preload_app!"].map(&preloads)
    assert_equal true, load("", { workers: "2" })[:preload_app]
  end

  def test_every_hook_with_its_names
    HOOKS.each do |name, others|
      [name, *others].each do |method|
        hooks = load("workers 2\n#{method} { |*list| [1, *list] }\n#{method} { 2 }")[name]

        assert_equal [[1], 2], hooks.map(&:call), method
        assert_equal [1, 5], hooks.first.call(5)
        assert_equal ["#{@path}:2", "#{@path}:3"], hooks.map(&:place)
        assert_equal "/puma.rb:1: #{name}: a block is needed", failure(method.to_s)
      end
    end
  end

  def test_keys_share_data
    config = load(<<~RUBY)
      workers 2
      before_worker_boot(:db) { |index, data| data[:boot] = index }
      on_worker_boot("db") { |_, data| data }
      before_worker_boot { |*list| list }
      before_worker_shutdown(:db) { |_, data| data }
    RUBY
    boot = config[:before_worker_boot]

    assert_equal [7, {}, [7]], boot.map { |hook| hook.call(7) }
    assert_equal({ boot: 7 }, config[:before_worker_shutdown].first.call(7))
    child = fork { exit!(config[:before_worker_shutdown].first.call(1).empty? ? 0 : 1) }
    assert_equal 0, Process.wait2(child).last.exitstatus
  end

  def test_which_hooks_take_a_key
    HOOKS.each_key do |name|
      message = failure("workers 2\n#{name}(1) { }")
      wanted = KEYED.include?(name) ? "#{name}: a key is a String or a Symbol, not 1" : "wrong number of arguments"
      assert_match(%r{\A/puma.rb:2: #{wanted}}, message)
    end
  end

  def test_a_hook_that_raises_is_logged
    err = StringIO.new
    log = Abaca::Log.new(StringIO.new, err)
    load("workers 2\nbefore_fork { raise \"broken\" }")[:before_fork].first.run(log, nil)
    log.flush

    assert_match(/hook before_fork at #{@path}:2 failed: broken \(RuntimeError\)$/, err.string)
  ensure
    log.release
  end

  def test_hooks_without_workers_are_warned_about
    text = "before_fork { }\nbefore_worker_boot { }\nafter_booted { }\nbefore_restart { }"
    assert_equal ["puma.rb:1: `before_fork' is not called: there are no workers",
                  "puma.rb:2: `before_worker_boot' is not called: there are no workers"], warnings(text)
    assert_empty warnings("#{text}\nsilence_fork_callback_warning")
    assert_empty warnings("#{text}\nworkers 2")
  end

  def test_hooks_that_are_never_called_are_warned_about
    assert_empty warnings("out_of_band { }")
    text = "on_thread_start { }\nbefore_thread_exit { }\n"
    assert_equal ["puma.rb:1: `before_thread_start' is not called: no request runs on a thread",
                  "puma.rb:2: `before_thread_exit' is not called: no request runs on a thread"], warnings(text)
    assert_empty warnings("#{text}mode :thread")
    assert_empty warnings("#{text}routes { thread \"/a\" }")
  end

  def test_reforks_that_never_come
    need_platform(:subreaper)
    assert_empty warnings("workers 2\nfork_worker\non_refork { }")
    assert_equal ["puma.rb:2: `before_refork' is not called: there is no fork_worker"],
                 warnings("workers 2\non_refork { }")
    assert_equal ["puma.rb:2: `fork_worker' has no effect: there are no other workers"],
                 warnings("workers 1\nfork_worker\nsilence_single_worker_warning")
  end

  def test_a_bundle_that_is_not_left
    assert_equal ["puma.rb:1: `prune_bundler' has no effect: there are no workers"], warnings("prune_bundler")
    assert_equal ["puma.rb:2: `prune_bundler' has no effect: the app is preloaded"],
                 warnings("workers 2\nprune_bundler\npreload_app!")
    assert_empty warnings("workers 2\nprune_bundler\nextra_runtime_dependencies %w[a b]")
    assert_equal %w[a b c], load("", { extra_runtime_dependencies: "a,b,c" })[:extra_runtime_dependencies]
  end

  def test_one_worker_is_warned_about
    assert_match(/\Apuma.rb:1: workers 1: one worker and a master/, warnings("workers 1").first)
    assert_empty warnings("workers 1\nsilence_single_worker_warning")
  end

  def test_parts_for_one_process_and_for_several
    text = "single { tag \"one\" }\ncluster { tag \"many\"; before_fork { } }\n"
    assert_equal %w[one many one many],
                 [load(text), load("#{text}workers 2\n"), load("workers 2\n#{text}", { workers: 0 }),
                  load(text, env: { "WEB_CONCURRENCY" => "3" })].map { |config| config[:tag] }
    assert_equal "many", load("#{text}tag \"before\"\nworkers 2\n")[:tag]
    assert_equal "/puma.rb:2: nonsense", failure("cluster { }\nsingle { raise ArgumentError, \"nonsense\" }")
    assert_equal "/puma.rb:2: single: the number of workers is settled by now", failure("single do\nworkers 2\nend")
    assert_equal "/puma.rb:1: cluster: a block is needed", failure("cluster")
  end

  def test_a_control_server
    config = load("activate_control_app \"unix:///tmp/c.sock\", auth_token: \"secret\", data_only: true")
    assert_equal ["unix:///tmp/c.sock", "secret", true],
                 config.to_h.values_at(:control_url, :control_auth_token, :control_data_only)
    config = load("activate_control_app")
    assert_equal ["auto", nil], config.to_h.values_at(:control_url, :control_auth_token)
    assert_equal "unix:///a?umask=0007", load("activate_control_app \"unix:///a\", umask: 0o007")[:control_url]
    assert_equal "none", load("activate_control_app \"auto\", no_token: true")[:control_auth_token]
    assert_nil load[:control_auth_token]
    config = load("activate_control_app \"auto\", operate_token: \"o\", read_token: \"r\"").to_h
    assert_equal ["o", "r", nil], config.values_at(:control_operate_token, :control_read_token, :control_auth_token)
    assert_match(/control URL nonsense: /, failure("activate_control_app \"nonsense\""))
    assert_match(/activate_control_app: token is unknown/, failure("activate_control_app \"auto\", token: 1"))
  end

  def test_what_restarts_and_control_keep
    config = load(<<~RUBY)
      state_path "tmp/state"
      state_permission 0o640
      restart_command "bin/start"
      bind_to_activated_sockets "only"
      plugin :tmp_restart
      plugin "other"
    RUBY
    assert_equal ["tmp/state", 0o640, "bin/start", :only, %w[tmp_restart other]],
                 config.to_h.values_at(:state_path, :state_permission, :restart_command, :bind_to_activated_sockets,
                                       :plugins)
    assert_equal %w[one two], load("plugin :one", { plugins: %w[two one] })[:plugins]
    assert_equal true, load("bind_to_activated_sockets")[:bind_to_activated_sockets]
    assert_match(/state_permission: a mode such as 0o640 is needed, not "640"/, failure("state_permission \"640\""))
    assert_match(/bind_to_activated_sockets: true, false or :only/, failure("bind_to_activated_sockets :most"))
  end
end
