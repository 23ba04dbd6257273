# frozen_string_literal: true

# also: rubies

require "test_helper"
require "abaca"

# Levels of a configuration, defaults, and what is checked at the end.
class ConfigTest < Minitest::Test
  def setup
    super
    @dir = Dir.mktmpdir("abaca")
    @rack_env = ENV.fetch("RACK_ENV", nil)
  end

  def teardown
    FileUtils.remove_entry(@dir)
    ENV["RACK_ENV"] = @rack_env
    super
  end

  def load(options = {}, files: nil, env: {})
    Abaca::Config::Loader.new(options, files:, env:, dir: @dir).load
  end

  def file(name, text)
    path = File.join(@dir, name)
    FileUtils.mkdir_p(File.dirname(path))
    File.write(path, text)
    path
  end

  def test_defaults
    config = load

    assert_equal "development", config[:environment]
    assert_equal "config.ru", config[:rackup]
    assert_in_delta 30.0, config[:shutdown_timeout]
    assert_in_delta 30.0, config[:force_shutdown_after]
    refute config[:log_requests]
    assert_equal [1000, Abaca::Config.max_fibers_ceiling].min, config[:max_fibers]
    assert_equal 1024, config[:max_queue]
    assert_equal Abaca::Engine::LIMITS.map { |_name, (value, _unit, _text)| value }, config.limits.values
    assert_empty config.warnings
  end

  # As Ruby reads it.
  def test_m_n_threads_are_not_supported
    assert_equal ["variable RUBY_MN_THREADS: M:N threads are not supported, and may crash the process: unset it"],
                 load(env: { "RUBY_MN_THREADS" => "1" }).warnings
    ["0", ""].each { |value| assert_empty load(env: { "RUBY_MN_THREADS" => value }).warnings }
  end

  def test_default_address_is_local_in_development_and_test_only
    { "development" => "tcp://127.0.0.1:9292", "test" => "tcp://127.0.0.1:9292",
      "production" => "tcp://0.0.0.0:9292", "staging" => "tcp://0.0.0.0:9292" }.each do |environment, url|
      assert_equal [url], load({ environment: }).binds.map(&:to_s)
    end
  end

  def test_port_without_host_waits_for_the_environment
    file("config/puma.rb", "port 3000\nenvironment \"production\"\n")

    assert_equal ["tcp://0.0.0.0:3000"], load.binds.map(&:to_s)
    file("config/puma.rb", "port 3000\nset_default_host \"::\"\n")
    assert_equal ["tcp://[::]:3000"], load.binds.map(&:to_s)
  end

  def test_command_line_wins_over_file_over_variables_over_defaults
    file("config/puma.rb", "persistent_timeout 20\ntag \"file\"\nport 1\nport 2\n")
    bind = Abaca::Config::Bind.tcp("127.0.0.1", 3)

    config = load({ tag: "words", binds: [bind] }, env: { "PUMA_PERSISTENT_TIMEOUT" => "10" })
    assert_equal [20, "words", ["tcp://127.0.0.1:3"]],
                 [config[:persistent_timeout], config[:tag], config.binds.map(&:to_s)]
    assert_equal 2, load.binds.size
    assert_equal 10, load({}, files: [], env: { "PUMA_PERSISTENT_TIMEOUT" => "10" })[:persistent_timeout]
    assert_equal 65, load({}, files: [], env: { "PUMA_PERSISTENT_TIMEOUT" => "" })[:persistent_timeout]
  end

  def test_environment_variables_in_their_order
    assert_equal "a", load({}, env: { "APP_ENV" => "a", "RACK_ENV" => "b", "RAILS_ENV" => "c" })[:environment]
    assert_equal "b", load({}, env: { "APP_ENV" => "", "RACK_ENV" => "b", "RAILS_ENV" => "c" })[:environment]
    assert_equal "c", load({}, env: { "RAILS_ENV" => "c" })[:environment]
    assert_equal "d", load({ environment: "d" }, env: { "RAILS_ENV" => "c" })[:environment]
  end

  def test_threads_of_the_environment
    threads = ->(**env) { load({}, env: env.transform_keys(&:to_s))[:threads] }

    assert_equal [2, 8], threads.call(PUMA_MIN_THREADS: "2", MIN_THREADS: "3", MAX_THREADS: "8")
    assert_equal [0, 9], threads.call(PUMA_MAX_THREADS: "9", PUMA_MIN_THREADS: "")
    assert_equal [4, 5], threads.call(MIN_THREADS: "4")
    assert_raises(Abaca::ConfigError) { threads.call(MAX_THREADS: "many") }
    file("config/puma.rb", "threads 1, 2\n")
    assert_equal [1, 2], threads.call(MAX_THREADS: "8")
  end

  def test_file_that_is_looked_for
    files = ["config/puma.rb", "config/puma/staging.rb", "config/abaca.rb", "config/abaca/staging.rb"]
    files.each do |name|
      file(name, "tag #{name.inspect}\n")

      assert_equal name, load({ environment: "staging" })[:tag]
    end
    assert_equal "config/abaca.rb", load[:tag]
    assert_nil load({}, files: [])[:tag]
    assert_equal "mine", load({}, files: [file("mine.rb", "tag \"mine\"\n")])[:tag]
  end

  def test_web_concurrency
    assert_equal [0, 4, 0], [nil, " 4 ", ""].map { |text| load({}, env: { "WEB_CONCURRENCY" => text })[:workers] }
    error = assert_raises(Abaca::ConfigError) { load({}, env: { "WEB_CONCURRENCY" => "four" }) }
    assert_equal "variable WEB_CONCURRENCY: workers: a number of processes or :auto is needed, 0 to 1000, " \
                 "not \"four\"", error.message
    file("config/puma.rb", "workers 2\n")
    assert_equal 2, load({}, env: { "WEB_CONCURRENCY" => "4" })[:workers]
  end

  # As docs/migrating_from_puma.md has it.
  def test_a_file_of_ours_beside_that_of_puma
    file("config/puma.rb", "threads 2, 3\nplugin :solid_queue\n")
    file("config/abaca.rb", "load File.join(__dir__, \"puma.rb\")\nmode :thread\n")
    config = load

    assert_equal [:thread, [2, 3]], config.to_h.values_at(:mode, :threads)
    assert_match(%r{/config/puma.rb:1\z}, config.origin(:threads))
    assert_match(%r{/config/puma.rb:2: plugin solid_queue is not run: there is no .*; jobs will not be processed\z},
                 config.warnings.first)
  end

  def test_max_fibers_above_what_the_kernel_bears
    ceiling = Abaca::Config.max_fibers_ceiling
    config = load({ max_fibers: ceiling + 1 })

    assert_equal ceiling, config[:max_fibers]
    assert_match(/max_fibers #{ceiling + 1} is more than vm.max_map_count bears/, config.warnings.first)
  end

  def test_the_default_of_max_fibers_is_never_more_than_the_kernel_bears
    assert_equal 10, Abaca::Config::Admission.max_fibers(nil, 10, [])
    assert_equal 1000, Abaca::Config::Admission.max_fibers(nil, 26_212, [])
  end

  def test_values_are_checked
    assert_match(/unknown setting `max_fibres' \(did you mean `max_fibers'\?\)/, failure(max_fibres: 1))
    assert_match(/max_fibers: a number of fibers is needed, not 0/, failure(max_fibers: 0))
    assert_match(/max_queue: a number of requests is needed, 0 or more, not -1/, failure(max_queue: -1))
    assert_match(/request_timeout: a path is needed/, failure(request_timeouts: { "reports" => 1 }))
    assert_match(/stream_bodies: a path is needed/, failure(stream_bodies: ["chat"]))
    assert_match(/request_timeout: a whole number of seconds/, failure(request_timeouts: { "/a" => "soon" }))
    assert_match(/shutdown_timeout: .* not -1/, failure(force_shutdown_after: -1))
    assert_match(/shutdown_delay: seconds are needed, not nil/, failure(shutdown_delay: nil))
    assert_match(/header_timeout: a whole number of seconds/, failure(header_timeout: nil))
  end

  # Rounded down they would mean something else, and 0.5 even "no limit".
  def test_half_a_second_is_no_whole_number
    assert_match(/request_timeout: a whole number of seconds is needed, not 0.5/, failure(request_timeout: 0.5))
    assert_match(/queue_timeout: a whole number/, failure(queue_timeout: 1.5))
    assert_match(/request_timeout: a whole number/, failure(request_timeouts: { "/a" => 2.5 }))
    assert_match(/max_fibers: .* not 1.5/, failure(max_fibers: 1.5))
    assert_match(/max_queue: .* not 0.5/, failure(max_queue: 0.5))
    assert_match(/threads: .* not \[0, 5.5\]/, failure(threads: [0, 5.5]))
    assert_equal [30, 7], Abaca::Config.new({ request_timeout: 30.0, max_queue: "7" }).to_h
                                       .values_at(:request_timeout, :max_queue)
  end

  def test_health_paths
    assert_equal [nil, nil], Abaca::Config.new.to_h.values_at(:readiness, :liveness)
    assert_equal "/up", Abaca::Config.new({ readiness: "/up" })[:readiness]
    ["ready", "", "/a b", "/a?b", "/a#b", "/\u00e4", "/a\n", "/#{'x' * 300}", 7].each do |path|
      assert_match(/readiness: a path such as/, failure(readiness: path))
    end
    assert_match(/the same path/, failure(readiness: "/up", liveness: "/up"))
  end

  def test_what_a_client_that_leaves_means
    assert_equal [false, :ask], load.to_h.values_at(:cancel_on_disconnect, :half_close)
    file("config/puma.rb", "cancel_on_disconnect\nhalf_close :gone\n")
    assert_equal [true, :gone], load.to_h.values_at(:cancel_on_disconnect, :half_close)
    file("config/puma.rb", "cancel_on_disconnect false\nhalf_close \"answer\"\n")
    assert_equal [false, :answer], load.to_h.values_at(:cancel_on_disconnect, :half_close)
    assert_equal "half_close: :ask, :answer or :gone is needed, not :maybe", failure(half_close: :maybe)
  end

  def test_a_bind_has_limits_of_its_own
    options = { "tcp://a:1?max_body_size=1000&header_timeout=5&backlog=9" => { max_body_size: 1000, header_timeout: 5 },
                "unix:///a?max_body_size=0" => { max_body_size: 0 }, "tcp://a:1" => nil }

    options.each { |url, limits| assert_equal [limits], [Abaca::Config::Bind.parse(url).options[:limits]] }
  end

  def test_proxies_are_checked_and_have_one_form
    config = load({ trusted_proxies: [:loopback, "10.0.0.0/8"], remote_address: :localhost,
                    forwarded_fields: "forwarded" })

    2.times do
      assert_equal [["127.0.0.0/8", "::1", "10.0.0.0/8"], "127.0.0.1", :forwarded],
                   [config[:trusted_proxies], config[:remote_address], config[:forwarded_fields]]
      config = Abaca::Config.new(config.to_h)
    end
    assert_match(/trusted_proxies: "10" is no address/, failure(trusted_proxies: ["10"]))
    assert_match(/remote_address: .* not 1/, failure(remote_address: 1))
    assert_match(/forwarded_fields: .* not nil/, failure(forwarded_fields: nil))
  end

  # Ruby itself raises at these, wherever a Symbol or a Regexp meets them.
  def test_bytes_that_are_no_text_and_encodings_like_no_other
    needed = { readiness: "a path", liveness: "a path", half_close: ":ask", mode: ":fiber",
               forwarded_fields: ":x_forwarded" }
    ["/\xff", "fiber\xff", "/up".encode("UTF-16LE")].each do |text|
      needed.each { |name, what| assert_match(/\A#{name}: #{what}.* needed, not/, failure(name => text)) }
      { header: text, proxy_protocol: text }.each do |source|
        assert_match(/\Aremote_address: .* needed, not/, failure(remote_address: [source].to_h))
      end
      error = assert_raises(Abaca::ConfigError) { Abaca::Server.new(-> {}, { fiber_scheduler: text }) }
      assert_match(/\Afiber_scheduler: .* is no name of a class/, error.message)
    end
    assert_match(/\Aroutes: a pattern/, failure(routes: [[:thread, "/up".encode("UTF-16LE")]]))
    assert_match(/\Aproxy_protocol: .* needed/, assert_raises(Abaca::ConfigError) do
      Abaca::Config::Proxies.listener(proxy_protocol: "v1\xff")
    end.message)
  end

  # A path may have any bytes but for a question mark.
  def test_patterns_of_bytes_that_are_no_text
    config = Abaca::Config.new({ routes: [[:thread, "/\xff"]], request_timeouts: { "/\xff" => 3 } })

    assert_equal [[[:thread, "/\xff"]], [["/\xff", 3]]], config.to_h.values_at(:routes, :request_timeouts)
  end

  def test_a_config_is_frozen
    config = load

    assert_predicate config, :frozen?
    assert_predicate config.warnings, :frozen?
    config.to_h[:tag] = "changed"
    assert_nil config[:tag]
  end

  def test_another_configuration_with_some_settings
    config = Abaca::Config.new({ max_queue: 3, hybrid_requests: 5 }, warnings: ["first"])
    other = config.with({ max_queue: 4, fiber_per_request: true })

    assert_equal [3, 4, 5, true], [config[:max_queue], *other.to_h.values_at(:max_queue, :hybrid_requests,
                                                                             :clean_thread_locals)]
    assert_equal config.warnings, other.warnings
    assert_equal 2, other.warnings.size
    assert_raises(Abaca::ConfigError) { config.with({ max_queue: -1 }) }
  end

  # docs/configuration.md has the settings.
  # The places of services, too, which have another form then.
  def test_another_configuration_with_the_same_services
    given = [["db", "10.0.0.9:6432"], ["db", "[::1]:6432"], ["cache", 7000], ["db", "/run/pgbouncer.sock"]]
    config = Abaca::Config.new({ services: given })
    assert_equal [["db", "10.0.0.9", 6432], ["db", "::1", 6432], ["cache", nil, 7000], ["db", "/run/pgbouncer.sock"]],
                 config[:services]
    assert_equal config[:services], config.with(max_queue: 3)[:services]
    assert_raises(Abaca::ConfigError) { Abaca::Config.new({ services: [["db", "10.0.0.9"]] }) }
  end

  def test_every_native_limit_is_a_setting_with_its_default
    refute_empty Abaca::Engine::LIMITS
    Abaca::Engine::LIMITS.each do |name, (value, _unit, what)|
      setting = Abaca::Config::SETTINGS.fetch(name.to_sym)
      assert_equal [value, what], [setting.default, setting.doc], name
    end
  end

  def test_script_name
    ["", "/shop", "/a/b", "/\u00e9"].each do |name|
      assert_equal name, Abaca::Config.new({ script_name: name })[:script_name]
    end
    assert_equal "", Abaca::Config.new({ script_name: nil })[:script_name]
    ["x", "shop/", "/", "/shop/", " /shop", :shop, "/shop".encode("UTF-16LE")].each do |name|
      error = assert_raises(Abaca::ConfigError) { Abaca::Config.new({ script_name: name }) }
      assert_match(%r{\Ascript_name: "" or a path such as "/shop" is needed, not }, error.message)
    end
    assert_equal "/shop", load(env: { "SCRIPT_NAME" => "/shop" })[:script_name]
  end

  # Hooks see what counts in the end, by Puma's names; so do methods of the file that they call.
  def test_the_configuration_in_a_hook
    path = file("config/puma.rb", <<~RUBY)
      def sizes = @config.options[:max_threads] * @config.options[:workers]

      threads 1, 4
      before_fork { [sizes, @config.options[:persistent_timeout], @config.environment, @config.options[:nonsense]] }
      before_fork { @config.options[:binds] }
      workers 9
    RUBY
    config = load({ workers: 3, environment: "staging" }, files: [path], env: { "PUMA_PERSISTENT_TIMEOUT" => "11" })
    load(files: []) # another one
    assert_equal [[12, 11, "staging", nil], ["tcp://0.0.0.0:9292"]], config.hooks(:before_fork).map(&:call)
  end

  private

  def failure(**values) = assert_raises(Abaca::ConfigError) { Abaca::Config.new(values) }.message
end
