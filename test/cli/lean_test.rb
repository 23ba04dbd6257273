# frozen_string_literal: true

require "test_helper"
require_relative "command"

# What a process loads of Abaca: what its settings ask for, and that before it listens.
class CommandLeanTest < Minitest::Test
  include Command

  APP = <<~'RUBY'
    root = "#{File.dirname($LOADED_FEATURES.grep(%r{/lib/abaca/version\.rb\z}).first)}/"
    own = -> { $LOADED_FEATURES.select { |path| path.start_with?(root) }.map { |path| path.delete_prefix(root) } }
    run ->(_env) { [200, { "content-type" => "text/plain" }, [own.call.join("\n")]] }
  RUBY
  PARTS = %r{\A(?:launcher/cluster|control/(?:server|commands|guard|places|request|address)|cli/help|access_log/
                |config/(?:hook|report|processors)|guest|scheduler/worker_pool)}x

  def setup
    super
    file("config.ru", APP)
  end

  def features(server) = server.get("/").body.lines(chomp: true)

  def test_one_process
    server = start("-p", "0")
    first = features(server)
    assert_includes first, "launcher/single.rb"
    assert_empty first.grep(PARTS)
    assert_equal first, features(server), "the first request has loaded something"
  end

  def test_libraries_are_loaded_when_they_are_named
    file("config.ru", <<~'RUBY')
      loaded = -> { $LOADED_FEATURES.grep(%r{/socket\.(?:rb|so)\z}).size }
      run ->(_env) { [200, {}, ["#{loaded.call} #{Socket.gethostname.class} #{loaded.call}"]] }
    RUBY
    assert_equal "0 String 2", start("-p", "0").get("/").body
    file("config.ru", "run ->(_env) { [200, {}, [StringIO.new(\"text\").read]] }")
    assert_equal "text", start("-p", "0").get("/").body
  end

  # Each would take its own time and memory for it.
  def test_workers_load_nothing
    file("config.ru", "run ->(_env) { [200, {}, [($LOADED_FEATURES - $loaded).join(\"\\n\")]] }")
    [true, false].each do |preload|
      file("settings.rb", "preload_app! #{preload}\nlog_requests\n" \
                          "before_worker_fork { $loaded = $LOADED_FEATURES.dup }")
      assert_empty features(start("-p", "0", "-w", "2", "-C", "settings.rb"))
    end
  end

  def test_workers_and_a_control_server
    server = start("-p", "0", "-w", "1", "--preload", "--control-url", "tcp://127.0.0.1:0")
    first = features(server)
    assert_includes first, "launcher/cluster.rb"
    assert_includes first, "launcher/cluster/worker.rb"
    assert_equal first, features(server), "the first request has loaded something"
  end
end
