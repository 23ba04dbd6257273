# frozen_string_literal: true

require "test_helper"
require "abaca"
require "socket"
require "stringio"
require "timeout"
require "tmpdir"

# Listeners that are open before there is a server: Abaca::Listener and Server#add_listener.
class ListenerTest < Minitest::Test
  # Serves on a listener of the parent's, and answers with its own pid, until TERM.
  def child(listener)
    fork do
      log = Abaca::Log.new(StringIO.new, StringIO.new)
      server = Abaca::Server.new(->(_env) { [200, {}, [Process.pid.to_s]] }, log: log)
      server.add_listener(listener)
      trap(:TERM) { server.stop }
      server.run
      exit!(0)
    ensure
      exit!(1)
    end
  end

  def ask(path)
    UNIXSocket.open(path) do |socket|
      socket.write("GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
      assert socket.wait_readable(20)
      socket.read[/\d+\z/].to_i
    end
  end

  def stop(pid)
    Process.kill(:TERM, pid)
    Timeout.timeout(20) { assert_predicate Process.wait2(pid).last, :success? }
  end

  # The file is the opener's: it stays when a process that serves ends.
  def test_opened_before_the_fork
    Dir.mktmpdir do |dir|
      path = File.join(dir, "socket")
      listener = Abaca::Listener.unix(path)
      2.times do
        pid = child(listener)
        assert_equal pid, ask(path)
        stop(pid)
        assert File.socket?(path)
      end
      listener.close
      refute File.exist?(path)
    end
  end

  def test_closed_or_taken
    server = Abaca::Server.new(->(_env) {})
    listener = Abaca::Listener.tcp("127.0.0.1", 0)
    port = listener.port
    assert_equal [:tcp, "127.0.0.1", port], listener.place
    assert_predicate Socket.for_fd(listener.fileno).tap { |socket| socket.autoclose = false }.local_address, :ipv4?
    server.add_listener(listener)
    assert_equal ["http://127.0.0.1:#{port}"], server.urls
    assert_raises(IOError) { listener.port }
    listener.close
    TCPSocket.new("127.0.0.1", port).close # closing it here does not take it from the server
    server.close
    assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("127.0.0.1", port) }
  end

  # Nothing stays open when one of a host's addresses cannot be listened on.
  def test_all_or_none
    taken = TCPServer.new("::1", 0)
    port = taken.addr[1]
    log = Abaca::Log.new(StringIO.new, StringIO.new)
    assert_raises(Errno::EADDRINUSE) { Abaca::Listener.of_host("localhost", port, log: log) }
    assert_raises(Errno::ECONNREFUSED) { TCPSocket.new("127.0.0.1", port) }
  ensure
    taken&.close
  end
end
