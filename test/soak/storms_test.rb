# frozen_string_literal: true

require "test_helper"
require "open3"
require "rbconfig"
require "socket"
require_relative "storms/clients"

# The storms of bin/soak in short: each of them once or twice, and that their clients notice what goes wrong.
class StormsTest < Minitest::Test
  OK = "HTTP/1.1 200 OK\r\nDate: Tue, 24 Nov 2026 00:00:00 GMT\r\nContent-Length: 1\r\n\r\n7"

  # One server boots after the other.
  def deadline_seconds = 4 * super

  # What came of a storm: its figures, by name.
  def storm(word, rounds)
    paths = $LOAD_PATH.grep_v(%r{/test\z}).map { |path| "-I#{path}" }
    words = ["--rounds", rounds.to_s, "--clients", "12"]
    output, status = Open3.capture2e(RbConfig.ruby, *paths, File.join(__dir__, "storms.rb"), word, *words)

    assert_predicate status, :success?, output
    assert_match(/^#{word}: good$/, output)
    output.scan(/^#{word}: ([^:]+): (.*)$/).to_h
  end

  def test_restarts
    figures = storm("restarts", 2)
    assert_equal "1 phased, 1 hot", figures["restarts"]
    assert_match(/\A[1-9]\d* answered, 0 failed\z/, figures["requests"])
  end

  def test_kills = assert_equal("4 workers", storm("kills", 4)["killed"])

  def test_stops
    assert_equal "1 of a worker for 0.3 s, 1 for good, 1 of the master", storm("stops", 3)["stops"]
  end

  def test_signals
    counts = storm("signals", 400)["signals"].scan(/(\d+) (\w+)/).to_h { |count, name| [name, count.to_i] }
    assert_equal %w[CHLD HUP PWR TTIN TTOU URG USR1], counts.keys
    assert_equal 400, counts.values.sum
  end

  def test_commands
    counts = storm("commands", 1)["commands"]
    %w[restart phased-restart reload-worker-directory halt start].each { |name| assert_match(/\b1 #{name}\b/, counts) }
  end

  def test_terms = assert_match(/\A\d /, storm("terms", 2)["ends"])

  def test_moments
    counts = storm("moments", 1)["signals"].scan(/(\d+) (\w+)/).to_h { |count, name| [name, count.to_i] }
    of_all = %w[HUP INT PWR TERM URG USR1 USR2].to_h { |name| [name, 3] }
    assert_equal({ **of_all, "TTIN" => 1, "TTOU" => 1 }, counts)
  end

  def test_ends = assert_equal("1", storm("ends", 1)["masters killed"])

  def test_resets
    figures = storm("resets", 20)
    assert_equal ["fiber, connections that ended", "hybrid, connections that ended"], figures.keys
    figures.each_value { |text| %w[reset_streams break_rules break_off].each { |name| assert_includes text, name } }
  end

  # Each kind of failure, by a server that answers as the block says.
  def test_clients_notice
    assert_includes kinds { |socket| socket.write(OK.sub("200", "503")) }, :wrong
    assert_includes kinds { |socket| socket.write("nonsense\r\n\r\n") }, :wrong
    assert_includes kinds { |socket| socket.write(OK[0, 20]) }, :partial
    assert_includes kinds { |socket| socket.write(OK[0..-2]) }, :partial
    assert_includes kinds { |socket| socket.write(OK) }, :kept
    assert_includes kinds(&:close_write), :fresh
  end

  # A draining server cannot wait forever for the first request of a connection.
  def test_a_client_that_was_late
    client = Struct.new(:parser).new(Wire::Parser.new)
    kinds = [0.4, 0.6].map { |took| Storms::Clients.allocate.send(:kind, EOFError.new, client, nil, took) }
    assert_equal %i[fresh late], kinds
  end

  def test_clients_notice_that_nobody_listens
    port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
    assert_equal [:connect], found(port)
  end

  private

  # What clients note whose first request is answered by the block, and whose connection then ends.
  def kinds
    server = TCPServer.new("127.0.0.1", 0)
    thread = Thread.new do
      loop do
        socket = server.accept
        socket.readpartial(4096)
        yield socket
      rescue SystemCallError, EOFError
        nil
      ensure
        socket&.close
      end
    end
    found(server.addr[1])
  ensure
    thread.kill.join
    server.close
  end

  def found(port)
    clients = Storms::Clients.new(port, 2)
    assert(Waits.eventually { clients.notes.any? })
    clients.stop.notes.map(&:kind).uniq
  end
end
