# frozen_string_literal: true

require "test_helper"
require "rack"
require "abaca/rack_handler"
require "tmpdir"

# The options that Rack's servers and Rails give a handler, as Puma's handler takes them.
class HandlerOptionsTest < Minitest::Test
  def setup
    super
    @variables = %w[APP_ENV RACK_ENV RAILS_ENV PORT].to_h { |name| [name, ENV.fetch(name, nil)] }
    @variables.each_key { |name| ENV.delete(name) }
  end

  def teardown
    @variables.each { |name, value| ENV[name] = value }
    super
  end

  # The configuration with these options, in a folder with this configuration file.
  def config(text = nil, **options)
    Dir.mktmpdir do |folder|
      Dir.chdir(folder) do
        FileUtils.mkdir("config")
        File.write("config/puma.rb", text) if text
        return Abaca::RackHandler.config(options)
      end
    end
  end

  def binds(...) = config(...).binds.map(&:to_s)

  def test_what_the_user_gives_wins_over_the_file
    assert_equal ["tcp://127.0.0.1:5001"], binds("port 6001", Port: 5001, user_supplied_options: [:Port])
    assert_equal ["tcp://127.0.0.1:5001"], binds("port 6001", Port: 5001)
    assert_equal ["tcp://10.0.0.1:3000"],
                 binds("port 6001", Host: "10.0.0.1", Port: 3000, user_supplied_options: [:Host])
  end

  # As Rails calls it.
  def test_the_file_wins_over_defaults
    defaults = { Host: "localhost", Port: 3000, environment: "test", user_supplied_options: [] }
    assert_equal ["tcp://localhost:6001"], binds("port 6001", **defaults)
    assert_equal ["tcp://1.2.3.4:6001"], binds("port 6001, '1.2.3.4'", **defaults)
    assert_equal ["unix:///tmp/a.sock"], binds("bind 'unix:///tmp/a.sock'", **defaults)
    assert_equal ["tcp://localhost:3000"], binds("threads 1, 2", **defaults)
    assert_equal ["tcp://localhost:3000"], binds(**defaults)
    assert_equal "test", config(**defaults)[:environment]
    assert_equal "staging", config("environment 'staging'", **defaults)[:environment]
  end

  # Rails' own, which removes the pidfile first.
  def test_the_command_of_a_restart
    command = "bin/rails server -p 3000 --restart"
    assert_equal command, config(restart_cmd: command, user_supplied_options: [])[:restart_command]
    assert_equal "bin/other", config("restart_command 'bin/other'", restart_cmd: command,
                                                                    user_supplied_options: [])[:restart_command]
  end

  def test_nothing_is_given
    assert_equal ["tcp://127.0.0.1:9292"], binds
    assert_equal ["tcp://127.0.0.1:6001"], binds("port 6001")
  end

  def test_hosts
    { "::1" => "tcp://[::1]:9292", "./relative.sock" => "unix://./relative.sock",
      "/absolute.sock" => "unix:///absolute.sock",
      "@abstract" => "unix://@abstract" }.each { |host, url| assert_equal [url], binds(Host: host) }
  end

  def test_hosts_with_tls
    skip "this build has no TLS" unless Abaca::TLS_LIBRARY
    assert_equal ["ssl://127.0.0.1:3000"], binds(Host: "ssl://127.0.0.1", Port: 3000)
    assert_equal ["ssl://localhost:3000"], binds(Host: "ssl://localhost?cert=a&key=b", Port: 3000)
    assert_equal ["ssl://[::1]:9292"], binds(Host: "ssl://[::1]")
    assert_equal ["ssl://0.0.0.0:1"], binds(Host: "ssl://0.0.0.0:1?cert=a&key=b", Port: 3000,
                                            user_supplied_options: [])
    assert_equal ["ssl://localhost:3000"], binds("dev_tls", Host: "localhost", Port: 3000)
  end

  # The first variable that is set; an option of the user's wins, a default of Rails' does not.
  def test_the_environment
    assert_equal "development", config[:environment]
    ENV["RAILS_ENV"] = "production"
    assert_equal "production", config[:environment]
    ENV["RACK_ENV"] = "staging"
    assert_equal "staging", config[:environment]
    assert_equal "staging", config(environment: "test", user_supplied_options: [])[:environment]
    assert_equal "test", config(environment: "test", user_supplied_options: [:environment])[:environment]
    assert_equal "test", config(environment: "test")[:environment]
    assert_equal "development", config("environment 'staging'", environment: :development)[:environment]
  end

  def test_settings_by_name
    given = config("max_fibers 7\nlog_requests", Threads: "1:4", mode: "thread", max_queue: "5", Silent: true)
    assert_equal [[1, 4], :thread, 7, 5, true, true],
                 %i[threads mode max_fibers max_queue log_requests silent].map { |name| given[name] }
    refute config("log_requests", log_requests: false)[:log_requests]
    given = config(fiber_per_request: true, first_data_timeout: 3)
    assert_equal [true, 3], [given[:clean_thread_locals], given[:header_timeout]]
  end

  def test_files_by_name
    Dir.mktmpdir do |folder|
      File.write("#{folder}/mine.rb", "max_fibers 9")
      assert_equal 9, config("max_fibers 7", config_files: ["#{folder}/mine.rb"])[:max_fibers]
    end
  end

  def test_the_handler_is_named_abaca
    handler = Rack.release < "3" ? "rack/handler" : "rackup/handler"
    require "#{handler}/abaca"
    modules = Rack.release < "3" ? Rack::Handler : Rackup::Handler
    assert_equal "#{modules}::Abaca", modules.get("abaca").to_s
    assert_includes modules.get(:abaca).valid_options.keys, "Threads=MIN:MAX"
  end
end
