# frozen_string_literal: true

require "test_helper"
require "abaca"

# Configuration files as people have them for Puma: what becomes of each line, and what is warned about.
class ConfigProductionTest < Minitest::Test
  FILES = File.expand_path("production", __dir__)
  # What Rails 8 generates, without its comments.
  RAILS = <<~RUBY
    threads_count = ENV.fetch("RAILS_MAX_THREADS", 3)
    threads threads_count, threads_count
    port ENV.fetch("PORT", 3000)
    plugin :tmp_restart
    plugin :solid_queue if ENV["SOLID_QUEUE_IN_PUMA"]
    pidfile ENV["PIDFILE"] if ENV["PIDFILE"]
  RUBY

  def setup
    super
    @env = ENV.to_h
    %w[APP_ENV RACK_ENV RAILS_ENV WEB_CONCURRENCY].each { |name| ENV.delete(name) }
  end

  def teardown
    ENV.replace(@env)
    super
  end

  # The configuration of a file, with these variables of the environment.
  def load(path, variables = {})
    ENV.update(variables)
    Abaca::Config::Loader.new({}, files: [path]).load
  end

  def file(name) = File.join(FILES, "#{name}.rb")

  # Without their folder.
  def warnings(config) = config.warnings.map { |line| line.delete_prefix("#{FILES}/") }

  def assert_settings(expected, config)
    assert_equal expected, expected.to_h { |name, _| [name, config[name]] }
  end

  def test_a_machine_of_its_own
    Dir.mktmpdir do |root|
      shared = File.join(root, "shared")
      Dir.mkdir(shared)
      config = load(file("machine"), "APP_ROOT" => root, "RAILS_ENV" => "production")

      assert_settings({ directory: root, environment: "production", tag: "shop", workers: 4, preload_app: true,
                        threads: [2, 8], worker_timeout: 45.0, worker_boot_timeout: 120.0,
                        worker_shutdown_timeout: 20.0, state_path: "#{shared}/puma.state", state_permission: 0o640,
                        control_url: "unix://#{shared}/pumactl.sock?umask=0077", control_auth_token: "s3cret",
                        restart_command: "bundle exec puma", log_requests: true, plugins: ["tmp_restart"] }, config)
      assert_equal ["unix://#{shared}/puma.sock", "tcp://127.0.0.1:8080"], config.binds.map(&:to_s)
      assert_equal({ umask: 7, backlog: 2048 }, config.binds.first.options.slice(:umask, :backlog))
      assert_equal [1, 1, 1, 1, 1, 1, 1],
                   %i[before_fork before_worker_boot before_worker_shutdown before_restart before_worker_fork
                      after_worker_fork after_worker_shutdown].map { |name| config[name].size }
      assert_equal [500, { "content-type" => "text/plain" }, ["Something went wrong.\n"]], answer_of(config)
    end
  end

  def test_a_platform_with_workers
    config = load(file("platform"), "PORT" => "5000", "WEB_CONCURRENCY" => "2", "RAILS_MAX_THREADS" => "4")

    assert_settings({ workers: 2, preload_app: true, threads: [4, 4], worker_timeout: 60.0, persistent_timeout: 75,
                      header_timeout: 15, max_requests_per_connection: 0, max_body_size: 20_971_520,
                      shutdown_timeout: 25.0, log_requests: false, tag: nil }, config)
    assert_equal ["tcp://0.0.0.0:5000"], config.binds.map(&:to_s)
    assert_equal ["platform.rb:29: `wait_for_less_busy_worker' has no effect: a worker without room accepts nothing"],
                 warnings(config)
    config[:before_worker_boot].first.call(0)
    assert_kind_of Object, config[:before_worker_shutdown].first.call(0)
  end

  def test_a_platform_with_one_process_serves
    config = load(file("platform"), "PORT" => "0", "WEB_CONCURRENCY" => "", "RACK_ENV" => "test")
    out = StringIO.new
    launcher = Abaca::Launcher.new(config, app: ->(_env) {}, out:, err: out)
    launcher.stop
    launcher.run

    assert_settings({ workers: 0, preload_app: false, tag: "test-single", worker_timeout: 30.0, before_fork: [] },
                    config)
    assert_empty warnings(config)
    assert_match(/Abaca starting in single mode.*Goodbye/m, out.string)
    refute ENV.key?("BOOTED")
  end

  def test_a_tuned_cluster
    need_platform(:subreaper)
    config = load(file("cluster"), "ABACA_CPUS" => "3", "KEEP_ALIVE" => "off")

    assert_settings({ workers: 3, fork_worker: 500, worker_check_interval: 2.5, worker_timeout: 30.0,
                      worker_culling_strategy: :oldest, bind_to_activated_sockets: :only, idle_timeout: 600.0,
                      early_hints: true, clean_thread_locals: true, max_requests_per_connection: 1, tag: "api",
                      control_auth_token: "none", control_data_only: true, plugins: ["metrics"], debug: false }, config)
    assert_equal ["tcp://0.0.0.0:3000", "tcp://0.0.0.0:3001"], config.binds.map(&:to_s)
    assert_equal [2, 1, 1, 1, 1, 1], %i[before_refork after_refork before_thread_start before_thread_exit out_of_band
                                        after_booted].map { |name| config[name].size }
    assert_equal %w[before_thread_exit before_thread_start io_selector_backend
                    max_io_threads metrics metrics_url mutate_stdout_and_stderr_to_sync_on_write
                    shutdown_debug],
                 warnings(config).grep(/\Acluster/).map { |line| line[/(?:`|plugin )(\w+)(?:'| is not run)/, 1] }.sort
    assert_includes config[:supported_http_methods], "REBIND"
  end

  def test_a_fresh_rails_app
    Dir.mktmpdir do |dir|
      path = File.join(dir, "puma.rb")
      File.write(path, RAILS)
      config = load(path)
      assert_settings({ threads: [3, 3], plugins: ["tmp_restart"], pidfile: nil, workers: 0 }, config)
      assert_equal ["tcp://127.0.0.1:3000"], config.binds.map(&:to_s)

      config = load(path, "RAILS_MAX_THREADS" => "5", "PORT" => "4000", "SOLID_QUEUE_IN_PUMA" => "1",
                          "PIDFILE" => "tmp/server.pid", "WEB_CONCURRENCY" => "auto", "ABACA_CPUS" => "2")
      assert_settings({ threads: [5, 5], plugins: %w[tmp_restart solid_queue], pidfile: "tmp/server.pid", workers: 2,
                        preload_app: true }, config)
      assert_equal ["tcp://127.0.0.1:4000"], config.binds.map(&:to_s)
    end
  end

  private

  def answer_of(config)
    answer = nil
    handler = config[:lowlevel_error_handler]
    _, err = capture_io { answer = handler.call(RuntimeError.new("no"), { "PATH_INFO" => "/" }, 500) }
    assert_equal "500 at /: no\n", err
    answer
  end
end
