# frozen_string_literal: true

# also: rubies

require "test_helper"
require "socket"
require "support/cluster_case"

# The configuration files of production_test.rb, unchanged, as the command serves with them.
class ProductionBootTest < Minitest::Test
  include ClusterCase

  FILES = File.expand_path("production", __dir__)
  # What follows gets the shell's process, and a socket at descriptor 3.
  AS_SYSTEMD = ["sh", "-c", 'LISTEN_PID=$$ exec "$@"', "sh"].freeze

  def setup
    super
    @env = { "RAILS_ENV" => nil, "RACK_ENV" => nil, "APP_ENV" => nil, "WEB_CONCURRENCY" => nil }
    File.write(File.join(@directory, "config.ru"), APP)
  end

  def boot(name, *words, env: {}, **options)
    start_abaca("-C", File.join(FILES, "#{name}.rb"), *words, env: @env.merge(env), **options)
  end

  # One of its places is elsewhere, since a test cannot have the port of the file.
  def test_a_machine_of_its_own
    FileUtils.mkdir_p(File.join(@directory, "shared"))
    socket = File.join(@directory, "shared/puma.sock")
    command = boot("machine", "-b", "unix://#{socket}", env: { "APP_ROOT" => @directory, "WORKERS" => "2" })
    text = -> { Dir[File.join(@directory, "shared/*.log")].map { |path| File.read(path) }.join }
    assert eventually { text.call.scan(BOOTED).size == 2 }, text
    answer = UNIXSocket.open(socket) { |client| client.write(CLOSE) && client.read }
    assert_match(%r{\AHTTP/1\.1 200 }, answer)
    assert_equal "#{command.pid}\n", File.read(File.join(@directory, "shared/puma.pid"))
    assert_equal 0, finish(command)
    assert_empty Dir.children(File.join(@directory, "shared")) - %w[puma.out.log puma.err.log]
  end

  def test_a_platform_with_workers
    command = boot("platform", env: { "PORT" => "0", "WEB_CONCURRENCY" => "2" })
    workers = wait_for_workers(command, 2).map(&:pid)
    port = Integer(command.wait_for(%r{Listening on https://.*:(\d+)$})[1])
    assert_includes workers, connect(port).call(CLOSE).body.to_i
    assert_equal 0, finish(command)
  end

  def test_a_tuned_cluster_with_activated_sockets
    server = TCPServer.new("127.0.0.1", 0)
    command = boot("cluster", env: { "ABACA_CPUS" => "2", "LISTEN_FDS" => "1" }, before: AS_SYSTEMD, 3 => server)
    wait_for_workers(command, 2)
    port = server.local_address.ip_port
    server.close
    assert_equal "/", connect(port).call(CLOSE).body
    assert_equal 0, finish(command)
  ensure
    server&.close
  end
end
