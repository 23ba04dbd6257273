# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/server_case"
require "async"
require "async/http/internet"

# Requests that ask another server with async-http, whose answers are the paths that it was asked for.
module AsyncHttpTests
  include ServerCase

  REQUESTS = 30 # more than there are threads for Async's blocks

  def setup
    super
    @asked = Queue.new
    @left = Queue.new
    @upstream = serve(cancel_on_disconnect: true) do |env|
      @asked << (path = env["PATH_INFO"])
      path == "/never" ? wait_for_the_end : answer(path)
    end
  end

  def wait_for_the_end
    sleep
  ensure
    @left << true
  end

  def answer(text) = [200, TYPE.dup, [text.to_s]]

  def url = "http://127.0.0.1:#{@upstream.port}/"

  def get(path) = request("GET", path)

  # Asks for a path and returns the answer, on a connection that is closed after it.
  def fetch(path, port = @upstream.port)
    Sync do
      internet = Async::HTTP::Internet.new
      internet.get("http://127.0.0.1:#{port}#{path}").read
    ensure
      internet.close
    end
  end

  def client(&) = Async::HTTP::Client.open(Async::HTTP::Endpoint.parse(url), &)

  def test_many_at_once
    running = host { |env| answer(fetch(env["PATH_INFO"])) }
    clients = Array.new(REQUESTS) { |number| connect(running).write(get("/#{number}")) }
    assert_equal Array.new(REQUESTS) { |number| "/#{number}" }, clients.map { |client| client.read.body }
    assert_equal REQUESTS, @upstream.server.stats[:accepted]
  end

  def test_one_connection_for_one_question_after_the_other
    running = host do
      answer(Sync { client { |client| Array.new(5) { |number| client.get("/#{number}").read }.join } })
    end
    assert_equal "/0/1/2/3/4", ask(running).body
    assert_equal 1, @upstream.server.stats[:accepted]
  end

  def test_questions_at_the_same_time
    running = host do
      answer(Sync do |task|
        client { |client| Array.new(3) { |number| task.async { client.get("/#{number}").read } }.map(&:wait).join }
      end)
    end
    assert_equal "/0/1/2", ask(running).body
  end

  def test_a_deadline_ends_the_question
    running = host do |env|
      next answer("free") if env["PATH_INFO"] == "/free"

      env["abaca.client"].request_timeout = 0.2
      fetch("/never")
    end
    late = connect(running).write(get("/late"))
    assert_equal "/never", @asked.pop
    assert_equal "free", ask(running, get("/free")).body
    assert_equal 504, late.read.status
    assert @left.pop
  end

  def test_an_upstream_that_is_not_there
    gone = serve
    gone.stop
    running = host do
      fetch("/", gone.port)
    rescue Errno::ECONNREFUSED => e
      answer(e.class)
    end
    assert_equal "Errno::ECONNREFUSED", ask(running).body
  end
end

# On Abaca's scheduler, where Async's blocks run on threads of their own, or on threads.
class AsyncHttpTest < Minitest::Test
  include AsyncHttpTests

  def host(&app) = serve(&app)
end

# As a guest of Async's own scheduler, for which Ruby 3.3 is needed.
class AsyncHttpGuestTest < Minitest::Test
  include AsyncHttpTests

  def setup
    skip "Async needs Ruby 3.3 to host the server" if RUBY_VERSION < "3.3"
    super
  end

  def teardown
    super unless skipped?
  end

  def host(&app) = serve(fiber_scheduler: "Async::Scheduler", &app)

  # All requests have one scheduler, so a client may be shared, and with it its connections.
  def test_one_connection_for_requests_one_after_the_other
    internet = Async::HTTP::Internet.new
    running = host do |env|
      env["PATH_INFO"] == "/end" ? answer(internet.close.class) : answer(internet.get(url).read)
    end
    3.times { assert_equal "/", ask(running).body }
    assert_equal 1, @upstream.server.stats[:accepted]
    assert_equal 200, ask(running, get("/end")).status
  end
end
