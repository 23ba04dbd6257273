# frozen_string_literal: true

require "test_helper"
require "support/server_case"

# Requests that an operator ends.
class FaultOperatorTest < Minitest::Test
  include ServerCase

  LONG = 30 # seconds, longer than any wait here
  PATIENCE = 15 # seconds; five is what a cancelled request gets

  def setup
    super
    @told = Queue.new
  end

  # The id of the only request in the app.
  def id_in(running)
    found = nil
    assert(eventually { found = running.server.requests.first })
    found.fetch(:id)
  end

  def test_one_that_waits
    running = serve(lint: false) do |env|
      env["abaca.deadline"].on_cancel { |exception| @told << exception.class }
      sleep LONG
    ensure
      @told << :ensure
    end
    client = connect(running).write(GET)
    id = id_in(running)
    assert running.server.cancel(id)
    response = client.read
    assert_equal [503, true], [response.status, response.close?]
    assert_equal [Abaca::EndedByOperator, :ensure], Array.new(2) { @told.pop }.sort_by(&:to_s)
    refute running.server.cancel(id), "it is over"
    assert running.logged?(%r{EndedByOperator: an operator has ended the request \(GET /\)})
  end

  def test_others_go_on
    running = serve do |env|
      sleep 0.01 until env["PATH_INFO"] == "/other" || @free
      [200, TYPE.dup, ["done"]]
    end
    clients = %w[/a /b].map { |path| connect(running).write(request("GET", path)) }
    rows = nil
    assert(eventually { (rows = running.server.requests).size == 2 })
    assert_equal 2, rows.map { |row| row[:id] }.uniq.size
    assert running.server.cancel(rows.find { |row| row[:path] == "/a" }[:id])
    assert_equal 503, clients.first.read.status
    @free = true
    assert_equal 200, clients.last.read.status
    refute running.server.cancel(0)
    refute running.server.cancel(12_345)
  end

  # What the app answers on purpose is its answer, and it is not interrupted again.
  def test_one_that_rescues_it
    running = serve(lint: false) do |_env|
      sleep LONG
    rescue Abaca::EndedByOperator
      @told << :rescued
      sleep 0.01 until @free
      [200, TYPE.dup, ["mine"]]
    end
    client = connect(running).write(GET)
    id = id_in(running)
    assert running.server.cancel(id)
    assert_equal :rescued, @told.pop
    refute running.server.cancel(id)
    @free = true
    assert_equal "mine", client.read.body
  end

  # Its client is answered all the same.
  def test_one_that_does_not_end
    running = serve(lint: false) do |_env|
      sleep 0.01 until @free
    rescue Abaca::EndedByOperator
      @told << :goes_on
      retry
    end
    client = connect(running, timeout: PATIENCE).write(GET)
    assert running.server.cancel(id_in(running))
    assert_equal :goes_on, @told.pop
    assert_equal 503, client.read.status
  ensure
    @free = true
  end

  # A head that was sent cannot be taken back.
  def test_one_that_streams
    running = serve(lint: false) do |_env|
      [200, TYPE.dup, ->(stream) { stream.write("begun") && sleep(LONG) }]
    end
    client = connect(running).write(GET)
    id = id_in(running)
    assert(eventually { running.server.requests.first[:phase] == :stream })
    assert running.server.cancel(id)
    assert_raises(EOFError, Wire::Malformed) { client.read }
  end
end
