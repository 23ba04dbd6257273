# frozen_string_literal: true

# also: modes portable

require "test_helper"
require "support/server_case"
require "support/slow_clients"

# Requests that wait for their own clients, who do not read or send: they take no place from others.
class OverloadSlowClientsTest < Minitest::Test
  include ServerCase
  include SlowClients

  PLACES = 2

  def places(number) = ServerCase.places(number)

  # A client that announces a body of `length` bytes and sends only `bytes`.
  def post(running, length, bytes)
    connect(running).write(request("POST", "/body", "Content-Length" => length.to_s) + bytes)
  end

  def slow(running) = running.server.stats[:slow]

  %w[/each /array /call].each do |path|
    define_method("test_who_does_not_read_#{path.delete('/')}_takes_no_place") do
      running = serve(app, lint: path != "/call", **places(PLACES), **SlowClients::PATIENCE)
      clients = Array.new(PLACES * 3) { reader(running, path) }
      assert eventually { slow(running) == clients.size }, running.server.stats.inspect
      3.times { assert_equal "quick", ask(running).body }
      assert_equal [PIECES * PIECE.bytesize], clients.map { |client| size(client) }.uniq
      assert eventually { slow(running).zero? && running.server.stats[:in_app].zero? }
      assert_equal 0, running.server.stats[:slow_closed]
      assert_equal "quick", ask(running).body
    end
  end

  # More of the body than is gathered, so that the app is called, and not all of it.
  def test_who_does_not_send_takes_no_place
    running = serve(app, **places(PLACES), max_body_memory: 16)
    clients = Array.new(PLACES * 3) do
      post(running, 1000, "b" * 100)
    end
    assert eventually { slow(running) == clients.size }, running.server.stats.inspect
    3.times { assert_equal "quick", ask(running).body }
    clients.each { |client| client.write("b" * 900) }
    assert_equal ["1000"], clients.map { |client| client.read.body }.uniq
    assert eventually { slow(running).zero? }
  end

  # Bodies that are read as they come, where nothing is held for all of them any more.
  def test_beyond_the_memory_of_all_bodies_nobody_takes_a_place_either
    running = serve(app, **places(PLACES), **STREAMED)
    clients = Array.new(PLACES * 3) { post(running, 9, "abc") }
    assert eventually { slow(running) == clients.size }, running.server.stats.inspect
    assert_equal "quick", ask(running).body
    clients.each { |client| client.write("defghi") }
    assert_equal ["9"], clients.map { |client| client.read.body }.uniq
  end

  # Of those beyond the limit some hold places, as long as nobody wants these.
  def test_at_the_limit_the_slowest_goes_first
    running = serve(app, **places(PLACES), max_slow_clients: 3, min_send_rate: 0)
    clients = Array.new(PLACES + 3) do |i|
      reader(running, "/each").tap { assert eventually { slow(running) == i + 1 } }
    end
    nothing_for(0.1) { running.server.stats[:slow_closed].zero? }
    assert_equal "quick", ask(running).body
    assert_equal 1, running.server.stats[:slow_closed]
    assert_raises(Wire::Malformed, EOFError, Errno::ECONNRESET) { clients.shift.read }
    assert_equal [PIECES * PIECE.bytesize], clients.map { |client| size(client) }.uniq
  end

  # The app learns of it as of a client that has gone by itself.
  def test_whose_client_is_closed_is_told
    told = Queue.new
    waiting = app
    running = serve(**places(PLACES), max_slow_clients: 1, max_body_memory: 16) do |env|
      env["abaca.client"].on_gone { told << :gone } if env["PATH_INFO"] == "/body"
      waiting.call(env)
    rescue Abaca::IncompleteBody => e
      told << e.class
      raise
    end
    (PLACES + 1).times do |i|
      post(running, 1000, "b" * 100)
      assert eventually { slow(running) == i + 1 }
    end
    assert_equal "quick", ask(running).body
    assert_equal [Abaca::IncompleteBody, :gone], [told.pop, told.pop].sort_by(&:to_s)
    assert_equal "", running.log
  end

  # Those who run are never more than the places, however many are there: who is done makes room for nobody when
  # others have gone on meanwhile.
  def test_places_are_as_many_as_before
    running = serve(app, **places(PLACES))
    clients = Array.new(PLACES * 2) { reader(running, "/each") }
    assert eventually { slow(running) == clients.size }
    waiting = Array.new(PLACES + 2) { connect(running).write(request("GET", "/wait")) }
    assert eventually { @gate.num_waiting == PLACES }
    assert eventually { running.server.stats[:waiting] == 2 }
    clients.each { |client| size(client) }
    assert eventually { slow(running).zero? }
    assert_equal [PLACES, 2], [@gate.num_waiting, running.server.stats[:waiting]]
    waiting.size.times { @gate << "done" }
    assert_equal ["done"], waiting.map { |client| client.read.body }.uniq
  end

  # Who wants one request at a time gets no second one in the middle of it.
  def test_a_single_place_is_not_left
    running = serve(app, **places(1))
    client = reader(running, "/each")
    assert eventually { in_phase(running, :drain) == 1 }
    assert_equal 0, slow(running)
    other = connect(running).write(GET)
    assert eventually { running.server.stats[:waiting] == 1 }
    assert_equal PIECES * PIECE.bytesize, size(client)
    assert_equal "quick", other.read.body
  end

  def test_it_can_be_turned_off
    running = serve(app, **places(PLACES), max_slow_clients: 0)
    clients = Array.new(PLACES) { reader(running, "/each") }
    assert eventually { in_phase(running, :drain) == PLACES }
    other = connect(running).write(GET)
    assert eventually { running.server.stats[:waiting] == 1 }
    clients.each { |client| size(client) }
    assert_equal "quick", other.read.body
  end

  def test_they_end_as_others_do
    running = serve(app, **places(PLACES), request_timeout: 2)
    clients = Array.new(PLACES * 2) { reader(running, "/each") }
    assert eventually { slow(running) == clients.size }
    clients.first.reset
    assert eventually { slow(running) == clients.size - 1 }
    assert eventually { slow(running).zero? && running.server.stats[:in_app].zero? }
    assert_equal clients.size - 1, running.server.stats[:expired]
    assert_equal 0, running.server.stats[:slow_closed]
    assert_equal "quick", ask(running).body
  end

  def test_a_stop_breaks_them_off
    running = serve(app, **places(PLACES), shutdown_timeout: 0.2)
    Array.new(PLACES * 3) { reader(running, "/each") }
    assert eventually { slow(running) == PLACES * 3 }
    running.stop
  end
end
