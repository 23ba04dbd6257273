# frozen_string_literal: true

# also: rubies

require "test_helper"
require "pathname"
require "abaca"

# Configuration files: what each setting becomes, and how mistakes are reported.
class ConfigDslTest < Minitest::Test
  NO_NETWORK = "is no address, no network like \"10.0.0.0/8\", and neither :loopback nor :private"
  METHODS_NEEDED = ":any or an Array of different names is needed"
  REMOTE_ADDRESS = ":socket, :localhost, a String, header: \"X-Real-IP\" or proxy_protocol: :v1 is needed"

  def setup
    super
    @dir = Dir.mktmpdir("abaca")
    @warnings = []
    @rack_env = ENV.fetch("RACK_ENV", nil)
  end

  def teardown
    FileUtils.remove_entry(@dir)
    ENV["RACK_ENV"] = @rack_env
    super
  end

  # The settings that a file with this text makes.
  def evaluate(text, name: "puma.rb")
    path = File.join(@dir, name)
    File.write(path, text)
    Abaca::PumaNames.define
    Abaca::Config::DSL.new({ environment: "test" }, warnings: @warnings).tap { |dsl| dsl.evaluate_file(path) }.to_h
  end

  # The message of the ConfigError that the text leads to, without the folder.
  def failure(text)
    assert_raises(Abaca::ConfigError) { evaluate(text) }.message.sub("#{@dir}/", "")
  end

  def test_file_of_the_rails_generator
    settings = evaluate(<<~RUBY)
      threads_count = ENV.fetch("NO_SUCH_MAX_THREADS", 3)
      threads threads_count, threads_count
      port ENV.fetch("NO_SUCH_PORT", "3000")
      plugin :tmp_restart
      pidfile ENV["NO_SUCH_PIDFILE"] if ENV["NO_SUCH_PIDFILE"]
    RUBY

    assert_equal ["tcp://:3000"], settings.delete(:binds).map(&:to_s)
    assert_equal({ threads: [3, 3], plugins: ["tmp_restart"] }, settings)
    assert_empty @warnings
  end

  def test_settings_and_what_they_become
    {
      'environment "production"' => { environment: "production" },
      "environment nil" => {},
      "environment ''" => {},
      'rackup "a.ru"; rackup "b.ru"' => { rackup: "a.ru" },
      'pidfile "p"' => { pidfile: "p" },
      'directory "d"' => { directory: "d" },
      'tag ""' => { tag: "" },
      "quiet" => { log_requests: false },
      "log_requests" => { log_requests: true },
      "quiet false" => { log_requests: true },
      "persistent_timeout 5" => { persistent_timeout: 5 },
      'persistent_timeout "7"' => { persistent_timeout: 7 },
      "first_data_timeout 6" => { header_timeout: 6 },
      'service "db", 1; service :http, "a.test:80"; service "cache", "/r.sock"' =>
        { services: [["db", nil, 1], ["http", "a.test", 80], ["cache", "/r.sock"]] },
      'metrics_ignore "/up"; metrics_ignore "/a", "/b/*"' => { metrics_ignore: ["/up", "/a", "/b/*"] },
      "server_timing" => { server_timing: true },
      'server_timing_secret "sixteen bytes long"' => { server_timing_secret: "sixteen bytes long" },
      "shutdown_delay 1.5" => { shutdown_delay: 1.5 },
      "idle_timeout 300" => { idle_timeout: 300.0 },
      "readiness '/readyz'" => { readiness: "/readyz" },
      "liveness '/livez'" => { liveness: "/livez" },
      "shutdown_timeout :forever" => { shutdown_timeout: nil },
      "shutdown_timeout 2" => { shutdown_timeout: 2.0 },
      "force_shutdown_after" => { shutdown_timeout: nil },
      "force_shutdown_after :immediately" => { shutdown_timeout: 0.0 },
      "force_shutdown_after 1.5" => { shutdown_timeout: 1.5 },
      "max_keep_alive 10" => { max_requests_per_connection: 10 },
      "max_keep_alive Float::INFINITY" => { max_requests_per_connection: 0 },
      "max_keep_alive nil" => {},
      "max_fast_inline 5" => { max_requests_per_connection: 5 },
      "max_keep_alive 6; max_fast_inline 5" => { max_requests_per_connection: 6 },
      "queue_requests; drain_on_shutdown; raise_exception_on_sigterm false" => {},
      "enable_keep_alives false" => { max_requests_per_connection: 1 },
      "enable_keep_alives" => {},
      "http_content_length_limit 9" => { max_body_size: 9 },
      "http_content_length_limit nil" => { max_body_size: 0 },
      "max_fibers 12" => { max_fibers: 12 },
      "max_queue 0" => { max_queue: 0 },
      "max_body_memory_total 16 * 1024" => { max_body_memory_total: 16_384 },
      "request_timeout 5" => { request_timeout: 5 },
      "stream_bodies \"/a\", \"/b/*\"; stream_bodies \"/c\"" => { stream_bodies: ["/a", "/b/*", "/c"] },
      "request_timeout 5, path: \"/a/*\"; request_timeout 0, path: \"*\"" =>
        { request_timeouts: [["/a/*", 5], ["*", 0]] },
      "supported_http_methods :any" => { supported_http_methods: :any },
      "supported_http_methods %w[GET BREW]" => { supported_http_methods: %w[GET BREW] },
      "supported_http_methods Puma::Const::SUPPORTED_HTTP_METHODS + %w[PROPFIND]" =>
        { supported_http_methods: %w[HEAD GET POST PUT DELETE OPTIONS TRACE PATCH QUERY PROPFIND] },
      "rewindable_input" => { rewindable_input: true },
      "rewindable_input false" => { rewindable_input: false },
      "null_input false" => { null_input: false },
      "max_header_count 64" => { max_header_count: 64 },
      "rack_url_scheme \"https\"" => { rack_url_scheme: "https" },
      "rack_url_scheme" => {},
      "stdout_redirect 'out', Pathname('err'), true" => { redirect: { stdout: "out", stderr: "err", append: true } },
      "stdout_redirect" => { redirect: { stdout: nil, stderr: nil, append: false } },
      "workers 0" => { workers: 0 },
      "workers nil" => { workers: 0 },
      "workers 2" => { workers: 2 },
      "workers '3'" => { workers: 3 },
      "debug" => { debug: true },
      "set_default_host \"::1\"" => { default_host: "::1" },
      "set_remote_address" => { remote_address: :socket },
      "set_remote_address :socket" => { remote_address: :socket },
      "set_remote_address :localhost" => { remote_address: "127.0.0.1" },
      "set_remote_address \"192.0.2.1\"" => { remote_address: "192.0.2.1" },
      "set_remote_address header: \"X-Real-IP\"" => { remote_address: { header: "X-Real-IP" } },
      "set_remote_address header: \"X_Real_IP\"" => { remote_address: { header: "X-Real-IP" } },
      "set_remote_address proxy_protocol: :v1" => { remote_address: { proxy_protocol: :v1 } },
      "trusted_proxies \"10.0.0.0/8\", :loopback" =>
        { trusted_proxies: ["10.0.0.0/8", "127.0.0.0/8", "::1"], forwarded_fields: :x_forwarded },
      "trusted_proxies [\"::1\"], fields: :forwarded" => { trusted_proxies: ["::1"], forwarded_fields: :forwarded },
      "trusted_proxies" => { trusted_proxies: [], forwarded_fields: :x_forwarded },
      "inject { tag get(:environment) }" => { tag: "test" }
    }.each { |text, settings| assert_equal settings, evaluate(text), text }
    assert_empty @warnings
  end

  def test_binds_add_up_until_they_are_cleared
    binds = evaluate(<<~RUBY).fetch(:binds)
      bind "tcp://127.0.0.1:1"
      clear_binds!
      bind "tcp://[::1]:2?backlog=5&low_latency=true"
      port 3, "10.0.0.1"
      port 4, "::"
      bind "unix:///run/a%20b.sock?umask=0007&mode=660"
      bind "unix:/run/one_slash.sock"
      bind "unix://@abstract"
      bind "fd://3?max_body_size=7"
    RUBY

    assert_equal ["tcp://[::1]:2", "tcp://10.0.0.1:3", "tcp://[::]:4", "unix:///run/a b.sock",
                  "unix:///run/one_slash.sock", "unix://@abstract", "fd://3"], binds.map(&:to_s)
    proxies = { proxy_protocol: nil, proxy_from: [], h2c: false }
    assert_equal({ backlog: 5, defer_accept: true, reuse_port: false, **proxies }, binds[0].options)
    assert_equal({ backlog: 1024, umask: 7, mode: 0o660, **proxies }, binds[3].options)
    assert_equal({ limits: { max_body_size: 7 }, **proxies }, binds[6].options)
  end

  def test_every_limit_of_the_native_table_is_a_setting
    refute_empty Abaca::Config::LIMITS
    Abaca::Config::LIMITS.each_key { |name| assert_equal({ name => 1 }, evaluate("#{name} 1"), name) }
  end

  def test_early_hints
    assert_equal({ early_hints: true }, evaluate("early_hints"))
    assert_equal({ early_hints: false }, evaluate("early_hints false"))
    refute Abaca::Config.new[:early_hints]
  end

  def test_every_setting_of_puma_is_known
    names = %i[
      threads workers port bind environment pidfile plugin preload_app! rackup worker_timeout before_fork
      before_worker_boot on_worker_boot state_path stdout_redirect directory tag activate_control_app quiet
      persistent_timeout first_data_timeout idle_timeout worker_boot_timeout worker_shutdown_timeout
      force_shutdown_after drain_on_shutdown lowlevel_error_handler log_requests log_formatter custom_logger ssl_bind
      wait_for_less_busy_worker fork_worker out_of_band before_restart on_restart after_booted on_booted
      before_worker_shutdown on_worker_shutdown before_worker_fork on_worker_fork after_worker_fork after_worker_boot
      after_worker_shutdown before_thread_start on_thread_start before_thread_exit on_thread_exit prune_bundler
      set_remote_address queue_requests raise_exception_on_sigterm silence_single_worker_warning
      silence_fork_callback_warning early_hints max_keep_alive http_content_length_limit app load clear_binds!
      set_default_host default_host bind_to_activated_sockets fiber_per_request clean_thread_locals restart_command
      debug rack_url_scheme max_io_threads state_permission single cluster after_stopped on_stopped before_refork
      on_refork after_refork worker_check_interval worker_culling_strategy extra_runtime_dependencies shutdown_debug
      enable_keep_alives supported_http_methods allow_underscore_headers io_selector_backend
      mutate_stdout_and_stderr_to_sync_on_write max_fast_inline inject get
    ]

    assert_empty names - Abaca::Config::DSL.public_instance_methods
  end

  def test_settings_without_effect_take_any_arguments
    Abaca::Config::DSL::PumaSettings::WITHOUT_EFFECT.each_key do |name|
      @warnings.clear
      evaluate("\n#{name}(1, two: 3) { |_| }")

      assert_equal 1, @warnings.size, name
      assert_match(/puma\.rb:2: `#{Regexp.escape(name.to_s)}' has no effect: /, @warnings.first)
    end
  end

  def test_values_that_are_not_honoured_give_a_warning
    evaluate("queue_requests false\ndrain_on_shutdown false\nraise_exception_on_sigterm")
    assert_equal ["puma.rb:1: `queue_requests false'", "puma.rb:2: `drain_on_shutdown false'",
                  "puma.rb:3: `raise_exception_on_sigterm'"],
                 @warnings.map { |line| line.sub("#{@dir}/", "")[/\A.*?'/] }
  end

  def test_binds_of_proxies
    binds = evaluate(<<~RUBY).fetch(:binds)
      bind "tcp://0.0.0.0:1?proxy_protocol=any&proxy_from=10.0.0.0/8,::1"
      bind "unix:///a?proxy_protocol=v1"
    RUBY

    assert_equal [{ proxy_protocol: :any, proxy_from: ["10.0.0.0/8", "::1"] }, { proxy_protocol: :v1, proxy_from: [] }],
                 binds.map { |bind| bind.options.slice(:proxy_protocol, :proxy_from) }
  end

  def test_unknown_setting
    assert_equal "puma.rb:12: unknown setting `foo'", failure("#{"\n" * 11}foo 1")
    assert_equal "puma.rb:1: unknown setting `max_fibres' (did you mean `max_fibers'?)", failure("max_fibres 1")
    assert_equal "puma.rb:2: unknown setting `foo'", failure("\ntag foo")
  end

  def test_values_out_of_range
    {
      "port 70_000" => "puma.rb:1: a port is a number from 0 to 65535, not 70000",
      "port \"http\"" => "puma.rb:1: a port is a number from 0 to 65535, not \"http\"",
      "port nil" => "puma.rb:1: a port is a number from 0 to 65535, not nil",
      "\nheader_timeout 0" => "puma.rb:2: header_timeout: 0 seconds is out of range, 1 is the least",
      "max_body_size(-1)" => "puma.rb:1: max_body_size: -1 bytes is out of range, 0 is the least",
      "max_body_size 2**64" => "puma.rb:1: max_body_size: 18446744073709551616 bytes is out of range, 0 is the least",
      "linger_timeout \"soon\"" => "puma.rb:1: linger_timeout: a whole number of seconds is needed, not \"soon\"",
      "\nworkers \"two\"" => "puma.rb:2: workers: a number of processes or :auto is needed, 0 to 1000, not \"two\"",
      "workers 1.5" => "puma.rb:1: workers: a number of processes or :auto is needed, 0 to 1000, not 1.5",
      "max_fibers \"x\"" => "puma.rb:1: max_fibers: a number of fibers is needed, not \"x\"",
      "request_timeout 0.5" => "puma.rb:1: request_timeout: a whole number of seconds is needed, not 0.5",
      "max_queue 1.5.to_s" => "puma.rb:1: max_queue: a number of requests is needed, 0 or more, not \"1.5\"",
      "max_body_memory_total(-1)" =>
        "puma.rb:1: max_body_memory_total: a number of bytes is needed, 0 or more, not -1",
      "supported_http_methods []" => "puma.rb:1: supported_http_methods: #{METHODS_NEEDED}, not []",
      "supported_http_methods %w[GET GET]" =>
        "puma.rb:1: supported_http_methods: #{METHODS_NEEDED}, not [\"GET\", \"GET\"]",
      "supported_http_methods [:GET]" => "puma.rb:1: supported_http_methods: #{METHODS_NEEDED}, not [:GET]",
      "supported_http_methods [\"G T\"]" => "puma.rb:1: supported_http_methods: #{METHODS_NEEDED}, not [\"G T\"]",
      "request_timeout 5, path: \"a\"" =>
        "puma.rb:1: request_timeout: a path is needed, such as \"/reports/*\", not \"a\"",
      "\nstall_after(-1)" => "puma.rb:2: stall_after: milliseconds are needed, 0 to 60000, not -1",
      "stall_report :never" => "puma.rb:1: stall_report: milliseconds are needed, 0 to 60000, not :never",
      "gvl_wait_target 60_001" => "puma.rb:1: gvl_wait_target: milliseconds are needed, 0 to 60000, not 60001",
      "spare_loops 65" => "puma.rb:1: spare_loops: a number of threads is needed, 0 to 64, not 65",
      "\nquantum 0.1" => "puma.rb:2: quantum: milliseconds are needed, 0.5 to 60000 or nil, not 0.1",
      "hybrid_threshold 0" => "puma.rb:1: hybrid_threshold: milliseconds are needed, 0.001 to 60000, not 0",
      "hybrid_requests 129" => "puma.rb:1: hybrid_requests: a number of requests is needed, 1 to 128, not 129",
      "mode :process" => "puma.rb:1: mode: :fiber, :thread or :hybrid is needed, not :process",
      "threads 5, 2" => "puma.rb:1: threads: the least and the most are needed, 0 and 5 say, not [5, 2]",
      "half_close :maybe" => "puma.rb:1: half_close: :ask, :answer or :gone is needed, not :maybe",
      "rackup DefaultRackup" => "puma.rb:1: Puma has no DefaultRackup since version 6: leave the line out, or write " \
                                "`rackup \"config.ru\"'",
      "readiness \"ready\"" => "puma.rb:1: readiness: a path such as \"/readiness\" is needed, not \"ready\"",
      "liveness 7" => "puma.rb:1: liveness: a path such as \"/liveness\" is needed, not 7",
      "readiness \"/up\"\nliveness \"/up\"" => "puma.rb:2: readiness and liveness have the same path",
      "shutdown_timeout :soon" =>
        "puma.rb:1: shutdown_timeout: seconds, :forever or :immediately is needed, not :soon",
      "shutdown_delay(-1)" => "puma.rb:1: shutdown_delay: seconds are needed, not -1",
      "idle_timeout \"soon\"" => "puma.rb:1: idle_timeout: seconds are needed, not \"soon\"",
      "log_formatter" => "puma.rb:1: log_formatter: a block is needed",
      "custom_logger 1" => "puma.rb:1: custom_logger: Integer has no write",
      "after_booted" => "puma.rb:1: after_booted: a block is needed",
      "stdout_redirect \"out\", true" => "puma.rb:1: stdout_redirect: a file for standard error is needed, not true; " \
                                         "whether to append is the third argument",
      "\nstdout_redirect 1" => "puma.rb:2: stdout_redirect: a file for standard output is needed, not 1",
      "stdout_redirect \"\\0\"" => "puma.rb:1: stdout_redirect: a file for standard output is needed, not \"\\u0000\"",
      "rack_url_scheme \"ftp\"" => "puma.rb:1: rack_url_scheme: http or https, not ftp",
      "bind \"tcp://a:1?nonsense=1\"" => "puma.rb:1: tcp://a:1?nonsense=1: unknown parameter nonsense",
      "bind \"tcp://a:1?proxy_protocol=v3\"" => "puma.rb:1: proxy_protocol: v1, v2 or any is needed, not \"v3\"",
      "bind \"unix:///a?proxy_from=::1\"" => "puma.rb:1: proxy_from: means nothing without proxy_protocol",
      "bind \"tcp://a:1?proxy_protocol=v1&proxy_from=x\"" => "puma.rb:1: proxy_from: \"x\" #{NO_NETWORK}",
      "bind \"tcp://a:1?max_body_siz=1\"" =>
        "puma.rb:1: tcp://a:1?max_body_siz=1: unknown parameter max_body_siz (did you mean `max_body_size'?)",
      "bind \"tcp://a:1?header_timeout=0\"" =>
        "puma.rb:1: tcp://a:1?header_timeout=0: header_timeout: 0 seconds is out of range, 1 is the least",
      "\ntrusted_proxies \"10.0.0.0/33\"" => "puma.rb:2: trusted_proxies: \"10.0.0.0/33\" #{NO_NETWORK}",
      "trusted_proxies \"a.test\"" => "puma.rb:1: trusted_proxies: \"a.test\" #{NO_NETWORK}",
      "trusted_proxies :everybody" => "puma.rb:1: trusted_proxies: :everybody #{NO_NETWORK}",
      "trusted_proxies nil" => "puma.rb:1: trusted_proxies: nil #{NO_NETWORK}",
      "trusted_proxies \"::1\", fields: :both" =>
        "puma.rb:1: forwarded_fields: :x_forwarded or :forwarded is needed, not :both",
      "bind \"unix:///a?mode=9\"" => "puma.rb:1: unix:///a?mode=9: mode=9 is not a number that fits",
      "set_remote_address :nowhere" => "puma.rb:1: remote_address: #{REMOTE_ADDRESS}, not :nowhere",
      "set_remote_address nil" => "puma.rb:1: remote_address: #{REMOTE_ADDRESS}, not nil",
      "\nset_remote_address header: \"a b\"" => /\Apuma.rb:2: remote_address: #{REMOTE_ADDRESS}, not {.*"a b"}\z/,
      "set_remote_address proxy_protocol: :v2" => /\Apuma.rb:1: remote_address: #{REMOTE_ADDRESS}, not {.*:v2}\z/,
      "set_remote_address head: 1" => /\Apuma.rb:1: remote_address: #{REMOTE_ADDRESS}, not {.*1}\z/,
      "rackup" => "puma.rb:1: wrong number of arguments (given 0, expected 1)"
    }.each { |text, message| assert_operator message, :===, failure(text), text }
  end

  def test_what_would_be_dangerous_to_ignore_is_an_error
    assert_match(/allow_underscore_headers false/, failure("allow_underscore_headers false"))
  end

  # What a setting cannot use, and what Ruby says of it: the message has the name of the setting.
  def test_values_of_another_kind
    {
      "bind 3000" => "puma.rb:1: bind: no implicit conversion of Integer into String (TypeError)",
      "\nload nil" => "puma.rb:2: load: no implicit conversion of nil into String (TypeError)",
      "max_keep_alive :x" => "puma.rb:1: max_keep_alive: can't convert Symbol into Float (TypeError)",
      "port 1, true" => /\Apuma.rb:1: port: undefined method .delete_prefix' for .*true.* \(NoMethodError\)\z/,
      "activate_control_app 'auto', true" =>
        /\Apuma.rb:1: activate_control_app: undefined method .keys' for .*true.* \(NoMethodError\)\z/,
      "rackup 1" => "puma.rb:1: rackup: a String is needed, not 1",
      "rackup nil" => "puma.rb:1: rackup: a String is needed, not nil",
      "set_default_host :any" => "puma.rb:1: default_host: a String is needed, not :any",
      "Integer([])" => "puma.rb:1: can't convert Array into Integer (TypeError)"
    }.each { |text, message| assert_operator message, :===, failure(text), text }
  end

  def test_errors_of_the_file_itself
    assert_equal "puma.rb:2: divided by 0 (ZeroDivisionError)", failure("\n1 / 0")
    assert_match(/\Apuma\.rb:2: syntax error/, failure("\n)\n"))
    assert_match(%r{\Apuma\.rb:1: cannot load such file -- no/such \(LoadError\)}, failure("require \"no/such\""))
    assert_equal "puma.rb:1: both", failure("raise ArgumentError, \"both\\nlines\"")
  end

  def test_load_evaluates_another_file_and_names_it_in_errors
    File.write(File.join(@dir, "other.rb"), "tag \"other\"\n")

    assert_equal({ tag: "other" }, evaluate("load File.join(__dir__, \"other.rb\")"))
    File.write(File.join(@dir, "other.rb"), "\nnonsense\n")
    assert_equal "other.rb:2: unknown setting `nonsense'", failure("load File.join(__dir__, \"other.rb\")")
  end

  # A file may keep what it likes in variables and methods of its own, whatever names the server has for its own.
  def test_the_names_of_a_file_are_its_own
    settings = evaluate(<<~RUBY)
      @config = @options = @given = @plugins = @overrides = @places = @warnings = @files = @parts = @hook_data = 1
      def self.set(*) = raise
      %i[add add_hook add_part locate line_of note place].each { |name| define_singleton_method(name) { |*| raise } }

      port 3000
      tag "own"
      before_worker_boot(:key) { }
      queue_requests false
      plugin :systemd
      single { workers 0 }
      app { |env| env }
    RUBY
    assert_equal %i[binds tag before_worker_boot plugins app], settings.keys
    assert_equal 1, @warnings.size
    assert_equal "puma.rb:13: unknown setting `foo'", failure("@files = []\n#{"\n" * 11}foo 1")
  end

  # As in Puma's files.
  def test_the_variables_that_pumas_files_find
    assert_equal({ threads: [2, 7], tag: "7 7", worker_timeout: 5.0 }, evaluate(<<~RUBY))
      threads 2, 7
      tag "\#{@options[:max_threads]} \#{@config.options[:max_threads]}"
      @options[:worker_timeout] = 5
    RUBY
    assert_equal "puma.rb:2: workers: a number of processes or :auto is needed, 0 to 1000, not \"two\"",
                 failure("\n@options[:workers] = 'two'")
    assert_equal "puma.rb:1: options[:max_threads] cannot be set: use `threads'", failure("@options[:max_threads] = 7")
    assert_match(/\Apuma.rb:2: undefined method .run_hooks' for .*NoMethodError/, failure("\n@config.run_hooks"))
  end
end
