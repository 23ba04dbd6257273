# frozen_string_literal: true

# also: rubies

require "test_helper"
require_relative "command"

# The signal that asks what every request waits for.
class CommandDumpTest < Minitest::Test
  include Command

  SIGNAL = Signal.list.key?("INFO") ? :INFO : :PWR
  # A line in one write: the banner of the server may be on its way.
  APP = <<~RUBY
    run(lambda do |env|
      $stderr.write("begun\\n") && sleep(60) if env["PATH_INFO"] == "/wait"
      limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 60
      $stderr.write("begun\\n")
      nil while env["PATH_INFO"] == "/burn" && Process.clock_gettime(Process::CLOCK_MONOTONIC) < limit
      [200, { "content-type" => "text/plain" }, ["done"]]
    end)
  RUBY

  def test_what_waits
    server = serve
    ask("/wait?secret")
    dump = dump_with(server, / waits for sleep/)

    assert_match(/\A=== 1 requests, 0 other fibers, \d+ threads ===$/, dump)
    assert_match(%r{^request +\d+\.\d{3} s  app      GET /wait from 127\.0\.0\.1  waits for sleep}, dump)
    assert_match(/ waits for sleep \(\S+ s left\) at \S*config\.ru:2/, dump)
    assert_match(/^Thread: TID-\w+ main \(run\)$/, dump)
    refute_match(/secret/, server.output)
    assert_equal "200", status("/")
  end

  # The trap handler runs in the middle of the code that keeps the loop.
  def test_what_computes
    server = serve("--silent")
    ask("/burn")
    dump = dump_with(server, /config\.ru:5/)

    assert_match(%r{^request .* GET /burn from 127\.0\.0\.1  runs at \S*config\.ru:5:in }, dump)
    assert_match(/^  \S*config\.ru:5:in /, dump)
    refute_match(/dump\.rb/, server.output)
  end

  # A library names its threads after whatever it connects to.
  def test_names_of_threads_forge_no_line
    name = "x\nabaca: error in the app: forged\e[2J\u009b2J\u202e"
    file("config.ru", "Thread.new { sleep }.name = #{name.dump}\n#{APP}")
    server = start_on_a_socket
    ask("/wait")
    dump = dump_with(server, / waits for sleep/)
    shown = 'x\x0Aabaca: error in the app: forged\x1B[2J\xC2\x9B2J\xE2\x80\xAE'
    assert_match(/^Thread: TID-\w+ #{Regexp.escape(shown)} \(sleep/, dump)
    refute_match(/^abaca: /, server.output)
  end

  def test_many_times
    server = serve
    ask("/wait")
    server.wait_for(/^begun\n/)
    20.times do
      server.signal(SIGNAL)
      sleep 0.01
    end
    server.wait_for(/=== 1 requests/)
    assert_equal "200", status("/")
  end

  # A process that is ended because its server does not end says why.
  def test_the_last_one
    file("config/abaca.rb", "shutdown_timeout :immediately\n")
    file("config.ru", %q(run ->(_env) { $stderr.write("begun\n") && loop { nil } }))
    server = start_on_a_socket
    ask("/hog")
    server.wait_for(/^begun\n/)
    [/Gracefully stopping/, /Stopping immediately/, /does not end/].each do |answer|
      server.signal(:TERM)
      server.wait_for(answer)
    end

    assert_equal 1, server.wait.exitstatus
    assert_match(%r{^request .* GET /hog .* runs at \S*config\.ru:1}, server.output)
  end

  private

  def serve(*words)
    file("config.ru", APP)
    start_on_a_socket(*words)
  end

  # The socket is there before the server: whoever connects waits until it serves, which a silent one does not say.
  def start_on_a_socket(*words)
    socket = TCPServer.new("127.0.0.1", 0)
    @port = socket.addr[1]
    start("-b", "fd://7", *words, inherits: { 7 => socket })
  ensure
    socket&.close
  end

  # Asks until a dump matches, and returns it: a request that has said that it begins may not be where it waits yet.
  def dump_with(server, pattern)
    server.wait_for(/^begun\n/)
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + SECONDS
    loop do
      server.signal(SIGNAL)
      dump = server.wait_for(/=== \d+ requests.*?^===$/m, after: server.output.size)[0]
      return dump if pattern.match?(dump)

      flunk "no dump has #{pattern.inspect}:\n#{dump}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
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
