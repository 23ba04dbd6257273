# frozen_string_literal: true

require "test_helper"
require "minitest/mock"
require_relative "control_case"

# How a control server ends, with clients at each point of what they do.
class ControlEndingTest < Minitest::Test
  include ControlCase

  # A job that never has an answer.
  class Job
    attr_reader :cancelled

    def answer = nil
    def cancel = @cancelled = true
  end

  # A page that is served with an answer of the test's.
  Pages = Struct.new(:answer) do
    def live(*) = answer
  end

  # A stream without an end.
  class Ticks
    def next = "data: 1\n\n"
  end

  # Another process accepts what comes now, but what this one has accepted is its own.
  def test_clients_that_have_asked_nothing_yet_have_a_moment
    address = control
    early, late, idle = Array.new(3) { connect(address) }
    late.write("GET /st")
    assert(eventually { threads(:reads).size == 3 })
    ending = close(silent: 30)
    early.write("GET /stats HTTP/1.1\r\n\r\n")
    assert_match(/ 200 OK.*\r\nConnection: close\r\n/m, early.read)
    late.write("ats HTTP/1.1\r\n\r\n")
    assert_match(/ 200 OK/, late.read)
    idle.close
    assert ending.join(5), "it waits for nobody"
  ensure
    [early, late, idle].each { |socket| socket&.close }
  end

  def test_the_moment_ends
    address = control
    silent = Array.new(2) { connect(address) }
    silent.last.write("GET /st")
    assert(eventually { threads(:reads).size == 2 })
    began = now
    close(silent: 0.3).join
    assert_operator now - began, :>=, 0.3
    assert_operator now - began, :<, 3, "no 408, for which it would have waited"
    assert_equal ["", ""], silent.map(&:read)
  ensure
    silent&.each(&:close)
  end

  # The bytes are there, and no thread has read them yet.
  def test_what_was_asked_at_the_last_moment
    address = control
    gate = Queue.new
    read = Control::Request.method(:read)
    client = nil
    Control::Request.stub(:read, ->(socket) { gate.pop && read.call(socket) }) do
      client = connect(address)
      client.write("GET /stats HTTP/1.1\r\n\r\n")
      assert(eventually { gate.num_waiting == 1 })
      ending = close(silent: 0)
      nothing_for(0.1)
      gate << true
      assert_match(/ 200 OK/, client.read)
      assert ending.join(5)
    end
  ensure
    client&.close
  end

  # The end comes between the call of accept and what is done with its connection.
  def test_a_connection_that_is_accepted_at_the_end
    address = control
    server = @servers.first
    ending = nil
    listener(server).define_singleton_method(:accept_nonblock) do |**options|
      super(**options).tap do
        ending = Thread.new { server.close(silent: 30) }
        Thread.pass until ending.stop?
        sleep 0.05
      end
    end
    client = connect(address)
    client.write("GET /stats HTTP/1.1\r\n\r\n")
    assert client.wait_readable(10), "nobody has it any more"
    assert_match(/ 200 OK/, client.read)
    assert ending.join(5)
  ensure
    client&.close
  end

  def test_an_answer_that_takes_too_long
    address = control
    launcher.define_singleton_method(:stats) { sleep }
    client = connect(address)
    client.write("GET /stats HTTP/1.1\r\n\r\n")
    assert(eventually { threads(:reads).empty? && Thread.list.any? { |one| one.name == "abaca control connection" } })
    began = now
    close(silent: 30).join
    assert_operator now - began, :<, 12, "a few seconds for all of it"
    assert_empty client.read
  ensure
    client&.close
  end

  # A client of EventSource comes again when a stream ends, not when it is broken off.
  def test_streams_end
    address = control(pages: Pages.new(Control::Answer.new(200, "text/event-stream", "", nil, Ticks.new)))
    client = connect(address)
    client.write("GET /live HTTP/1.1\r\n\r\n")
    assert(eventually { threads(:streams).size == 1 })
    late = connect(address)
    assert(eventually { threads(:reads).size == 1 })
    ending = close(silent: 30)
    assert_match(/\A.* 200 OK\r\n.*\r\n\r\n(?:data: 1\n\n)*\z/m, client.read)
    late.write("GET /live HTTP/1.1\r\n\r\n")
    assert_match(/ 200 OK\r\n/, late.read, "it ends as well, so that its client comes again")
    assert ending.join(5)
  ensure
    [client, late].each { |socket| socket&.close }
  end

  def test_jobs_are_given_up
    job = Job.new
    address = control(pages: Pages.new(Control::Answer.later(job)))
    client = connect(address)
    client.write("GET /live HTTP/1.1\r\n\r\n")
    assert(eventually { threads(:waits).size == 1 })
    close(silent: 0).join
    assert_match(/ 503 .*\r\n\r\nThe server ends\z/m, client.read)
    assert job.cancelled
  ensure
    client&.close
  end

  private

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # Of connections in this state.
  def threads(state) = Thread.list.select { |thread| thread[state] }

  def listener(server) = server.instance_variable_get(:@places).sockets.first

  # Ends the server, on a thread, which is returned when nothing is accepted any more.
  def close(silent:)
    server = @servers.pop
    accepts = server.instance_variable_get(:@thread)
    Thread.new { server.close(silent:) }.tap { assert(eventually { !accepts.alive? }) }
  end
end
