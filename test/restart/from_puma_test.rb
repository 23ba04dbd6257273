# frozen_string_literal: true

require "test_helper"
require "abaca"
require "socket"
require "support/process_case"

# A Puma that restarts, and whose command leads to Abaca by then. The test stands in for it.
class FromPumaTest < Minitest::Test
  include ProcessCase

  APP = <<~'RUBY'
    run ->(_env) { [200, { "content-type" => "text/plain" }, ["hello #{ENV.keys.grep(/INHERIT/).size}"]] }
  RUBY
  CLOSING = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"

  def setup
    super
    @path = "#{@directory}/a socket"
    @tcp = TCPServer.new("127.0.0.1", 0)
    @port = @tcp.addr[1]
    @unix = UNIXServer.new(@path)
  end

  def teardown
    [@tcp, @unix].each(&:close)
    super
  end

  # Who has connected meanwhile is served.
  def test_it_serves_on_with_the_same_sockets
    early = connect(@port).write(CLOSING)
    server = start("bind 'tcp://127.0.0.1:#{@port}?backlog=64'\nbind 'unix://#{@path}'",
                   "3:tcp://127.0.0.1:#{@port}?low_latency=true", "4:unix://#{@path.sub(' ', '%20')}")
    assert_equal "hello 0", early.read.body
    assert_match(%r{^\* Inherited tcp://127\.0\.0\.1:#{@port}\n\* Inherited unix://#{@path}$}, server.text)
    refute_match(/Listening|Closing|warning/, server.text)

    late = connect(@port)
    server.signal(:USR2)
    server.wait_for(/Inherited.*Inherited.*Inherited.*Use Ctrl-C/m)
    assert_equal "hello 0", connect(@port).call(CLOSING).body
    late.close
    server.signal(:TERM)
    assert_equal 0, server.wait.exitstatus
    refute_path_exists @path
  end

  # Otherwise its port would stay in use, and its boot fail.
  def test_a_socket_by_another_url_is_opened_anew
    server = start("bind 'tcp://127.0.0.1:#{@port}'", "3:tcp://localhost:#{@port}") { @tcp.close }
    assert_match(%r{^\* Closing tcp://localhost:#{@port}, .*^\* Listening on http://127\.0\.0\.1:#{@port}$}m,
                 server.text)
    assert_equal "hello 0", connect(@port).call(CLOSING).body
  end

  # Such variables may have come along to where there is no Puma any more.
  def test_what_does_not_listen_is_left_alone
    server = start("bind 'tcp://127.0.0.1:0'", "1:tcp://127.0.0.1:#{@port}", "900:unix://#{@path}", "no number")
    assert_equal "hello 0", connect(server.port).call(CLOSING).body
    refute_match(/Inherited|Closing/, server.text)
    assert_path_exists @path
  end

  private

  # Runs it with these variables until it serves; the block runs when it has the sockets.
  def start(config, *places)
    File.write("#{@directory}/config.ru", APP)
    File.write("#{@directory}/settings.rb", config)
    env = places.each_with_index.to_h { |place, i| ["PUMA_INHERIT_#{i}", place] }
    server = start_abaca("-C", "settings.rb", env:, 3 => @tcp, 4 => @unix)
    yield if block_given?
    server.tap { server.wait_for(/Use Ctrl-C/) }
  end
end
