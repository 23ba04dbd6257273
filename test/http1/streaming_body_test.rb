# frozen_string_literal: true

# also: modes sanitized portable rubies

require "timeout"
require "test_helper"
require "support/digests"
require "support/server_case"

# Request bodies that the app reads while they come, not to their end, or not at all; and the trailers
# behind them (RFC 9112 7.1.2, 8, 9.6).
class Http1StreamingBodyTest < Minitest::Test
  include ServerCase
  include Digests

  def serve(app = nil, **options, &) = super(app, **STREAMED, **options, &)

  # The app has each part before the next one is sent.
  def test_bytes_reach_the_app_as_they_come
    { "Content-Length" => ["6", ->(piece) { piece }],
      "Transfer-Encoding" => ["chunked", ->(piece) { "2\r\n#{piece}\r\n" }] }.each do |field, (value, frame)|
      parts = Queue.new
      running = serve(lint: false) do |env|
        3.times { parts << env["rack.input"].read(2) }
        [200, { "content-type" => "text/plain" }, [env["rack.input"].read(2).inspect]]
      end
      client = connect(running).write(request("POST", "/", field => value))
      %w[ab cd ef].each do |part|
        client.write(frame.call(part))
        assert_equal part, parts.pop
      end
      client.write("0\r\n\r\n") if value == "chunked"
      assert_equal "nil", client.read.body
      finish(running)
    end
  end

  # An app that does not read slows the client down, and holds no memory for it.
  def test_back_pressure
    gate = Queue.new
    running = serve do |env|
      gate.pop
      DIGEST.call(env)
    end
    client = connect(running)
    body = "x" * 30_000_000
    client.write(request("POST", "/", "Content-Length" => body.bytesize.to_s))
    sent = 0
    assert(eventually do
      n = client.socket.write_nonblock(body.byteslice(sent, 1_000_000), exception: false)
      n == :wait_writable ? client.socket.wait_writable(0.2).nil? : (sent += n) && nil
    end)
    assert_operator sent, :<, body.bytesize
    assert_operator running.server.stats[:received], :<, 200_000
    gate << true
    assert_equal summary(body), client.call(body.byteslice(sent..)).body
  end

  # A response that answers while the request is still being sent, both on their way at once.
  def test_echo
    running = serve(lint: false) do |env|
      echo = lambda do |stream|
        while (piece = env["rack.input"].read(5))
          stream.write(piece)
        end
        stream.close
      end
      [200, { "content-type" => "text/plain" }, echo]
    end
    client = connect(running).write(request("POST", "/", "Transfer-Encoding" => "chunked"))
    seen = String.new
    %w[hello world].each do |word|
      client.write("5\r\n#{word}\r\n")
      seen << client.read_some until seen.include?(word)
    end
    client.write("0\r\n\r\n")
    assert client.drain.end_with?("0\r\n\r\n")
  end

  # A streaming body reads when its head is out already: it is asked for before that, unless the answer is no.
  def test_a_streaming_body_reads_what_was_expected
    [200, 401].each do |status|
      running = serve(lint: false) do
        body = lambda do |stream|
          stream.write(status == 200 ? stream.read : "no")
          stream.close
        end
        [status, { "content-type" => "text/plain" }, body]
      end
      client = connect(running).write(request("POST", "/", "Expect" => "100-continue", "Content-Length" => "5"))
      assert_equal 100, client.read_interim.status if status == 200
      response = status == 200 ? client.call("hello") : client.read
      assert_equal [status, status == 200 ? "hello" : "no"], [response.status, response.body]
      assert_empty response.interim
      finish(running)
    end
  end

  def test_many_uploads_at_once
    running = serve(DIGEST)
    bodies = Array.new(20) { |nth| Random.new(nth).bytes(200_000 + nth) }
    clients = bodies.map { |body| connect(running).write(request("POST", "/", "Content-Length" => body.bytesize.to_s)) }
    20.times do |part|
      bodies.each_index { |nth| clients[nth].write(bodies[nth].byteslice(part * 10_100, 10_100).to_s) }
    end
    assert_equal(bodies.map { |body| summary(body) }, clients.map { |client| client.read.body })
  end

  def test_reading_from_another_fiber_and_thread
    ways = { thread: ->(work) { Thread.new(&work).value },
             beside: ->(work) { Queue.new.tap { |queue| ServerCase.beside { queue << work.call } }.pop } }
    # Elsewhere the wait of a fiber within a fiber ends up with the one around it.
    ways[:fiber] = ->(work) { Fiber.new(&work).resume } if MODE.empty?
    ways.each do |name, way|
      running = serve(lint: false) do |env|
        [200, { "content-type" => "text/plain" }, [way.call(-> { env["rack.input"].read })]]
      end
      half = request("POST", "/", "Content-Length" => "10") + "hello"
      client = connect(running).write(half)
      assert eventually { running.server.stats[:received] == half.bytesize }, name.to_s
      assert_equal "helloworld", client.call("world").body, name.to_s
      finish(running)
    end
  end

  # Each line goes to one of them, and none is lost.
  def test_two_fibers_read_lines
    running = serve(lint: false) do |env|
      seen = Queue.new
      readers = Queue.new
      2.times do
        ServerCase.beside do
          while (line = env["rack.input"].gets)
            seen << line
          end
          readers << true
        end
      end
      2.times { readers.pop }
      [200, { "content-type" => "text/plain" }, Array.new(seen.size) { seen.pop }]
    end
    lines = Array.new(200) { |nth| "#{nth} #{'x' * (nth * 7 % 100)}\n" }
    client = connect(running).write(request("POST", "/", "Content-Length" => lines.sum(&:bytesize).to_s))
    lines.join.scan(/.{1,333}/m).each { |part| client.write(part).then { sleep 0.0005 } }
    assert_equal lines.sort, client.read.body.lines.sort
  end

  # A wait that the app has broken off leaves no deadline behind.
  def test_time_counts_only_while_the_app_waits
    skip "the scheduler has no timeouts" unless MODE.empty?
    waiting = Queue.new
    running = serve(lint: false, body_timeout: 2) do |env|
      late = begin
        Timeout.timeout(0.05) { env["rack.input"].read }
      rescue Timeout::Error => e
        e.class
      end
      sleep 2.4
      waiting << true
      [200, { "content-type" => "text/plain" }, [late.to_s, env["rack.input"].read]]
    end
    client = connect(running).write(request("POST", "/", "Content-Length" => "5") + "he")
    waiting.pop
    assert_equal "Timeout::Errorllo", client.call("llo").body
  end

  def test_a_forked_child_leaves_its_parents_body_alone
    skip "not every scheduler lets its fibers fork" unless MODE.empty?
    running = serve(lint: false) do |env|
      child = fork do
        env["rack.input"].read
      rescue IOError
        exit!(7)
      ensure
        exit!(1)
      end
      status = Process.wait2(child).last.exitstatus
      [200, { "content-type" => "text/plain" }, [status.to_s, env["rack.input"].read]]
    end
    assert_equal "7hello", ask(running, request("POST", body: "hello")).body
  end

  # Two who read share the bytes; the request ends when the first one says so.
  def test_a_reader_that_outlives_the_request
    errors = Queue.new
    running = serve(lint: false) do |env|
      input = env["rack.input"]
      reader = Thread.new do
        input.read
      rescue StandardError => e
        errors << e.class
      end
      Thread.pass until reader.stop?
      [200, { "content-type" => "text/plain" }, ["done"]]
    end
    client = connect(running).write(request("POST", "/", "Content-Length" => "10") + "hello")
    assert_equal "done", client.read.body
    assert_includes [IOError, Abaca::IncompleteBody], errors.pop
  end

  # --- trailers (RFC 9112 7.1.2) ---

  def test_trailers
    seen = Queue.new
    running = serve(lint: false) do |env|
      before = env["abaca.trailers"].dup
      env["rack.input"].read
      seen << [before, env["abaca.trailers"]]
      [200, { "content-type" => "text/plain" }, ["ok"]]
    end
    client = connect(running)
    head = request("POST", "/", "Transfer-Encoding" => "chunked")
    fields = "X-Sum: 1 \r\nContent-Length: 5\r\nX-Sum:2\r\nHost: b\r\nEmpty:\r\n"
    client.call("#{head}3\r\nabc\r\n0\r\n#{fields}\r\n")
    assert_equal [{}, { "x-sum" => "1, 2", "empty" => "" }], seen.pop
    client.call(head + chunked("abc"))
    assert_equal [{}, {}], seen.pop
    client.call("#{head}0\r\nA: b\r\n\r\n")
    assert_equal [{}, { "a" => "b" }], seen.pop
  end

  def test_no_trailers_without_chunks
    running = serve { |env| [200, { "content-type" => "text/plain" }, [env["abaca.trailers"].inspect]] }
    assert_equal "nil", ask(running, request("POST", body: "x")).body
    assert_equal "nil", ask(running).body
  end

  # What frameworks go by when they look for a body of unknown length.
  def test_the_env_of_a_chunked_request
    running = serve do |env|
      params = Rack::Request.new(env).POST
      [200, { "content-type" => "text/plain" }, [env.values_at("HTTP_TRANSFER_ENCODING", "CONTENT_LENGTH").inspect,
                                                 params.inspect]]
    end
    response = ask(running, request("POST", "/", "Transfer-Encoding" => "chunked",
                                                 "Content-Type" => "application/x-www-form-urlencoded") +
                            chunked("a=1&", "b=2"))
    assert_equal %(["chunked", nil]{"a"=>"1", "b"=>"2"}), response.body.gsub(" => ", "=>")
    part = "--x\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\nvalue\r\n--x--\r\n"
    response = ask(running, request("POST", "/", "Transfer-Encoding" => "chunked",
                                                 "Content-Type" => "multipart/form-data; boundary=x") + chunked(part))
    assert_includes response.body, %("value")
  end

  # --- bodies that do not come to their end ---

  def test_what_the_app_gets_to_know
    seen = Queue.new
    running = serve(body_timeout: 1) do |env|
      env["rack.input"].read
      flunk
    rescue Abaca::BodyError => e
      seen << e.class
      raise
    end
    chunked_head = request("POST", "/", "Transfer-Encoding" => "chunked")
    { "#{chunked_head}3\r\nabcd" => 400, "#{chunked_head}3\r\nab" => 408,
      (request("POST", "/", "Content-Length" => "5") + "abc") => 408 }.each do |bytes, status|
      response = ask(running, bytes)
      assert_equal [Abaca::BodyError, status], [seen.pop, response.status]
      assert response.close?
    end
    client = connect(running).write("#{chunked_head}3\r\nab")
    client.half_close
    assert client.closed? # nobody is told anything
    assert_equal Abaca::IncompleteBody, seen.pop
    assert_equal "", running.log
  end

  # The app may have something to say all the same.
  def test_an_app_that_rescues
    running = serve do |env|
      env["rack.input"].read
    rescue Abaca::BodyError => e
      [422, { "content-type" => "text/plain" }, [e.message]]
    end
    response = ask(running, "#{request('POST', '/', 'Transfer-Encoding' => 'chunked')}z\r\n")
    assert_equal [422, true], [response.status, response.close?]
    assert_match(/chunk size is malformed/, response.body)
  end

  # --- left unread ---

  def test_half_a_body_is_read
    running = serve(max_unread_body: 1_000) do |env|
      [200, { "content-type" => "text/plain" }, [env["rack.input"].read(500)]]
    end
    client = connect(running)
    [501, 1_500].each do |size|
      response = client.call(request("POST", body: "x" * size))
      assert_equal ["x" * 500, false], [response.body, response.close?], size.to_s
    end
    response = client.call(request("POST", "/", "Content-Length" => "1501") + ("x" * 500))
    assert_equal ["x" * 500, true], [response.body, response.close?]
    assert client.closed?
  end

  # The client sends on and reads only afterwards: neither a deadlock nor a reset that eats the answer.
  def test_an_answer_in_the_middle_of_an_upload
    running = serve(IGNORE, linger_timeout: 60)
    client = connect(running)
    client.write(request("POST", "/", "Content-Length" => "20000000"))
    sent = client.write_what_goes("x" * 20_000_000)
    assert_equal 20_000_000, sent
    response = client.read
    assert_equal ["ignored", true], [response.body, response.close?]
    assert client.closed?
  end

  def test_bodies_of_get_and_head
    running = serve { |env| [200, { "content-type" => "text/plain" }, [env["rack.input"].read]] }
    client = connect(running)
    assert_equal "hello", client.call(request("GET", body: "hello")).body
    assert_equal 200, client.call(request("HEAD", body: "hello")).status
    assert client.usable?
  end

  def test_an_input_that_the_app_closes
    running = serve(lint: false) do |env|
      env["rack.input"].close
      [200, { "content-type" => "text/plain" }, ["closed"]]
    end
    client = connect(running)
    assert_equal "closed", client.call(request("POST", body: "x" * 1_000)).body
    assert client.usable?
  end

  def test_pipelined_requests_behind_bodies
    running = serve { |env| [200, { "content-type" => "text/plain" }, [env["rack.input"].read(3).to_s]] }
    client = connect(running)
    client.write(request("POST", body: "one...") + request("POST", "/", "Transfer-Encoding" => "chunked") +
                 chunked("two", "...") + GET + request("POST", body: "four"))
    assert_equal ["one", "two", "", "fou"], Array.new(4) { client.read.body }
  end

  def test_the_last_request_of_a_connection_has_a_body
    client = connect(serve(DIGEST, max_requests_per_connection: 1))
    response = client.call(request("POST", body: "hello"))
    assert_equal [summary("hello"), true], [response.body, response.close?]
    assert client.closed?
  end
end
