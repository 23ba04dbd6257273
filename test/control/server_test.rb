# frozen_string_literal: true

require "test_helper"
require "json"
require_relative "control_case"

# The control server in this process: who may use it, and what it answers.
class ControlServerTest < Minitest::Test
  include ControlCase

  OK = '{ "status": "ok" }'

  def test_pumas_answers
    address = control
    assert_equal "two\nlines", JSON.parse(body(address, "/stats"))["text"]
    assert_equal 1, body(address, "/any/stats").lines.size
    assert_operator JSON.parse(body(address, "/gc-stats")).fetch("count"), :>, 0
    thread = JSON.parse(body(address, "/thread-backtraces")).find { |row| row["name"].end_with?("abaca control") }
    assert_kind_of Array, thread["backtrace"]
    %w[stop halt restart gc].each { |command| assert_equal OK, body(address, "/#{command}") }
    assert_equal %i[stop halt restart], launcher.calls
    assert_equal [404, "Unsupported action"], [status(address, "/x"), body(address, "/x")]
  end

  # Names of threads and texts of the server may be any bytes: an answer is one line of JSON that a terminal only shows.
  def test_no_byte_of_a_name_moves_a_terminal
    name = "x\n\e\x7f\u0085\u009b2J\u061c\u200e\u200f\u2028\u2029\u202e\u2066\u2069 caf\u00e9"
    queue = Thread::Queue.new
    threads = [name, "\xff\u009b".b].map { |one| Thread.new { queue.pop }.tap { |thread| thread.name = one } }
    launcher.define_singleton_method(:stats) { { backlog: 0, name:, abaca: { v: 1, bytes: "\xff" } } }
    launcher.define_singleton_method(:server) { Struct.new(:dump).new("=== \u009b\u202e\n===") }
    address = control
    %w[stats thread-backtraces].each do |word|
      answer = body(address, "/#{word}").force_encoding("UTF-8")
      assert_equal 200, status(address, "/#{word}")
      assert_match(/\A[\u0020-\u007e\u00a0-\u061b\u061d-\u200d\u2010-\u2027\u202f-\u2065\u206a-\u{10ffff}]*\z/, answer)
      assert_includes JSON.parse(answer).to_s, name.inspect[1..-2], "and it is the same text"
    end
    assert_equal "=== \\xC2\\x9B\\xE2\\x80\\xAE\n===\n", body(address, "/dump")
  ensure
    threads&.each { queue << 1 }
    threads&.each(&:join)
  end

  # The launcher refuses two of them, and has no method for the others.
  def test_what_cannot_be_done
    address = control
    %w[phased-restart refork reload-worker-directory dump].each do |command|
      assert_equal 404, status(address, "/#{command}")
      assert_equal %({ "error": "#{command.tr('-', '_')} not available" }), body(address, "/#{command}")
    end
  end

  def test_verbs_and_heads
    address = control
    answer = exchange(address, "HEAD /stats HTTP/1.0\r\n\r\n")
    assert_match(%r{\AHTTP/1\.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: \d\d\r\n}, answer)
    assert answer.end_with?("Connection: close\r\n\r\n")
    assert_match(/ 200 OK.*#{OK}\z/m, exchange(address, "POST /stop HTTP/1.1\r\nContent-Length: 0\r\n\r\n"))
    assert_match(%r{\AHTTP/1\.1 400 }, exchange(address, "DELETE /stop HTTP/1.1\r\n\r\n"))
    assert_match(%r{\AHTTP/1\.1 413 }, exchange(address, "POST /stop HTTP/1.1\r\nContent-Length: 9\r\n\r\n#{'x' * 9}"))
    assert_equal %i[stop], launcher.calls
  end

  # They are served one after the other.
  def test_no_thread_for_a_client
    address = control
    failing = ->(*) { raise ThreadError, "can't create Thread: Resource temporarily unavailable" }
    Thread.stub(:new, failing) { 2.times { assert_equal OK, body(address, "/stop") } }
    assert_equal OK, body(address, "/stop")
    assert_equal %i[stop] * 3, launcher.calls
  end

  def test_a_token
    address = control(token: "se cret")
    assert_equal [403, "Invalid auth token"], [status(address, "/stop"), body(address, "/stats?token=se")]
    assert_equal [200, 200], ["/stats?token=se%20cret", "/stats?a=b;token=se+cret"].map { |to| status(address, to) }
    assert_equal 403, status(address, "/stats", "Authorization" => "Bearer secret")
    plain = control("tcp://127.0.0.1:0", token: "secret")
    # As exporters do: no Host, and the last line is the answer.
    answer = exchange(plain, "GET /stats?token=secret HTTP/1.0\r\n\r\n")
    assert_equal 0, JSON.parse(answer.split("\n").last).fetch("backlog")
    assert_equal 200, status(plain, "/stats", "Authorization" => "bearer secret")
    assert_equal 200, status(plain, "/workers", "Authorization" => "Bearer secret")
    # What Puma does not have needs no token where others may log it.
    assert_equal 403, status(plain, "/workers?token=secret")
    assert_empty launcher.calls
  end

  def test_a_token_of_its_own
    guard = Control::Guard.new(Control::Address.parse("auto"), nil)
    assert_match(/\A\h{32}\z/, guard.token)
    refute_equal guard.token, Control::Guard.new(Control::Address.parse("auto"), "").token
    assert_nil Control::Guard.new(Control::Address.parse("tcp://127.0.0.1:1"), "none").token
    error = assert_raises(Abaca::ConfigError) { Control::Guard.new(Control::Address.parse("tcp://0.0.0.0:1"), "none") }
    assert_match(/a token is needed/, error.message)
  end

  def test_data_only
    address = control(data_only: true)
    assert_equal([200, 200, 200], %w[stats gc-stats workers].map { |command| status(address, "/#{command}") })
    %w[stop gc dump thread-backtraces x].each do |command|
      assert_equal 404, status(address, "/#{command}")
      assert_equal "Command #{command.inspect} unavailable", body(address, "/#{command}")
    end
    assert_empty launcher.calls
  end

  # A page may point its own name here, or send a request from where it is.
  def test_web_pages
    address = control("tcp://127.0.0.1:0")
    port = address.port
    ["evil.test", "evil.test:#{port}", "localhost.evil.test", "127.0.0.1.evil.test"].each do |host|
      assert_equal 403, status(address, "/stop", "Host" => host), host
    end
    [{ "Origin" => "http://evil.test" }, { "Sec-Fetch-Site" => "cross-site" }, { "Origin" => "null" }].each do |fields|
      assert_equal 403, status(address, "/stop", "Host" => "127.0.0.1:#{port}", **fields), fields
    end
    assert_empty launcher.calls
    good = ["127.0.0.1:#{port}", "localhost", "[::1]:#{port}", ""]
    assert_equal([200] * 4, good.map { |host| status(address, "/stats", "Host" => host) })
    same = { "Host" => "127.0.0.1:1", "Origin" => "http://127.0.0.1:1", "Sec-Fetch-Site" => "same-origin" }
    assert_equal 200, status(address, "/stats", **same)
  end

  def test_an_abstract_socket_knows_its_users
    need_platform(:abstract_sockets)
    address = control("unix://@abaca-test-#{Process.pid}")
    assert_equal 200, status(address, "/stats")
    guard = Control::Guard.new(address, "none")
    request = Control::Request.new("GET /stats HTTP/1.0")
    stranger = Struct.new(:getpeereid).new([Process.euid + 1, 0])
    assert_match(/Not a user/, guard.refusal(request, stranger, query: true))
  end

  def test_files_of_unix_sockets
    path = "#{@dir}/control.sock"
    UNIXServer.new(path).close # a stale one
    control
    assert_equal 0o600, File.stat(path).mode & 0o777
    assert_match(/in use/, assert_raises(Abaca::ConfigError) { control }.message)
    @servers.pop.close
    refute_path_exists path
    File.write(path, "not a socket")
    assert_raises(Abaca::ConfigError) { control }
    File.delete(path)
  end

  def test_auto
    before = File.umask
    address = control("auto")
    assert_match(%r{/abaca-status-#{Process.pid}\z}, address.path)
    assert_equal [0o700, before], [File.stat(File.dirname(address.path)).mode & 0o777, File.umask]
    assert_equal 200, status(address, "/stats")
    @servers.pop.close
    refute_path_exists File.dirname(address.path)
  end

  def test_localhost_is_every_loopback_address
    address = control("tcp://localhost:0")
    Abaca::Addresses.of("localhost").each do |host|
      TCPSocket.new(host, address.port).close
    rescue Errno::EADDRNOTAVAIL
      next # no IPv6 here
    end
    assert_equal 200, status(Control::Address.parse("tcp://127.0.0.1:#{address.port}"), "/stats")
  end

  # Silent clients take places of their own, and none of the server's end.
  def test_silent_clients
    address = control
    silent = Array.new(8) { connect(address) }
    assert_equal 200, status(address, "/stats")
    silent.first.write("GET /st")
    assert(eventually { Thread.list.count { |thread| thread[:reads] } == 8 })
    @servers.pop.close
    assert(silent.all? { |socket| ended?(socket) }, "no 408, for which it would have waited")
  ensure
    silent&.each(&:close)
  end

  def test_silent_clients_in_all_places
    address = control
    silent = Array.new(20) { connect(address) }
    assert_equal 200, status(address, "/stats")
    assert(silent.first(5).all? { |socket| ended?(socket) }, "no 408, for which the next one would have waited")
  ensure
    silent&.each(&:close)
  end

  def test_a_command_that_fails
    address = control
    launcher.define_singleton_method(:stats) { raise "no figures" }
    assert_equal [500, "stats failed; the log says why"], [status(address, "/stats"), body(address, "/stats")]
    @logger.release
    assert_match(%r{control server: /stats: no figures \(RuntimeError\)}, @log.string)
  end

  # The child lets go of what its parent listens on, and leaves the file.
  def test_in_a_forked_child
    address = control
    waiting = connect(address)
    waiting.write("GET /stats HT")
    assert(eventually { @servers.first.instance_variable_get(:@connections).any? })
    pid = fork do
      @servers.first.forget
      left = Dir["/proc/self/fd/*"].filter_map { |link| File.readlink(link) rescue nil } # rubocop:disable Style/RescueModifier
      exit!(File.socket?(address.path) && left == left - sockets_of(address) ? 0 : 1)
    end
    assert_equal 0, Process.wait2(pid).last.exitstatus
    waiting.write("TP/1.0\r\n\r\n")
    assert_match(/ 200 OK/, waiting.read)
    assert_equal 200, status(address, "/stats")
  ensure
    waiting&.close
  end

  private

  # The names that the kernel gives what listens there, and what it has accepted.
  def sockets_of(address)
    File.readlines("/proc/net/unix").select { |line| line.end_with?(" #{address.path}\n") }
        .map { |line| "socket:[#{line.split[6]}]" }
  end

  # Whether nothing comes any more. Bytes that the server has not read yet make the kernel reset the connection.
  def ended?(socket)
    socket.read.empty?
  rescue Errno::ECONNRESET
    true
  end
end
