# frozen_string_literal: true

require "test_helper"
require_relative "command"

# The signal that asks what every request waits for.
class CommandDumpTest < Minitest::Test
  include Command

  SIGNAL = Signal.list.key?("INFO") ? :INFO : :PWR
  APP = <<~RUBY
    run(lambda do |env|
      $stderr.puts("begun") || sleep(60) if env["PATH_INFO"] == "/wait"
      limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 30
      $stderr.puts("begun")
      nil while env["PATH_INFO"] == "/burn" && Process.clock_gettime(Process::CLOCK_MONOTONIC) < limit
      [200, { "content-type" => "text/plain" }, ["done"]]
    end)
  RUBY

  def test_what_waits
    server = serve
    ask("/wait?secret")
    server.wait_for(/^begun$/)
    server.signal(SIGNAL)
    server.wait_for(/^===$/)

    assert_match(/^=== 1 requests, 0 other fibers, \d+ threads ===$/, server.output)
    assert_match(%r{^request +\d+\.\d{3} s  app      GET /wait from 127\.0\.0\.1  waits for sleep}, server.output)
    assert_match(/ waits for sleep \(\S+ s left\) at \S*config\.ru:2/, server.output)
    assert_match(/^Thread: TID-\w+ main \(run\)$/, server.output)
    refute_match(/secret/, server.output)
    assert_equal "200", status("/")
  end

  # The trap handler runs in the middle of the code that keeps the loop.
  def test_what_computes
    server = serve("--silent")
    ask("/burn")
    server.wait_for(/^begun$/) && sleep(0.2) # until it has written that
    server.signal(SIGNAL)
    server.wait_for(/^===$/, within: 20)

    assert_match(%r{^request .* GET /burn from 127\.0\.0\.1  runs at \S*config\.ru:5:in }, server.output)
    assert_match(/^  \S*config\.ru:5:in /, server.output)
    refute_match(/dump\.rb/, server.output)
  end

  def test_many_times
    server = serve
    ask("/wait")
    server.wait_for(/^begun$/)
    20.times do
      server.signal(SIGNAL)
      sleep 0.01
    end
    assert_equal "200", status("/")
    server.wait_for(/^=== 1 requests/)
  end

  # A process that is ended because its server does not end says why.
  def test_the_last_one
    file("config/abaca.rb", "port 0\nshutdown_timeout :immediately\n")
    file("config.ru", "run ->(_env) { $stderr.puts('begun') || loop { nil } }")
    server = start
    @port = server.port
    ask("/hog")
    server.wait_for(/^begun$/)
    [/Gracefully stopping/, /Stopping immediately/, /does not end/].each do |answer|
      server.signal(:TERM)
      server.wait_for(answer)
    end

    assert_equal 1, server.wait(within: 5).exitstatus
    assert_match(%r{^request .* GET /hog .* runs at \S*config\.ru:1}, server.output)
  end

  private

  def serve(*words)
    file("config.ru", APP)
    @port = free_port
    start("-p", @port.to_s, *words).tap { wait_until_it_listens }
  end

  def free_port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }

  # A silent server does not say when it is ready.
  def wait_until_it_listens
    SECONDS.times do
      return TCPSocket.new("127.0.0.1", @port).close
    rescue Errno::ECONNREFUSED
      sleep 0.2
    end
  end

  def status(path) = Net::HTTP.get_response("127.0.0.1", path, @port).code

  # Asks, and does not wait for the answer.
  def ask(path)
    (@sockets ||= []) << TCPSocket.new("127.0.0.1", @port)
    @sockets.last.write("GET #{path} HTTP/1.1\r\nHost: a.test\r\n\r\n")
  end

  def teardown
    @sockets&.each(&:close)
    super
  end
end
