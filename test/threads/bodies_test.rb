# frozen_string_literal: true

require "test_helper"
require "support/digests"
require "support/server_case"

# A request is taken when its body is here: whoever is slow to send it occupies no fiber and no thread, and is
# seen to by the engine.
class ThreadsBodiesTest < Minitest::Test
  include ServerCase
  include Digests

  WAYS = { "mode" => { mode: :thread, threads: [0, 2], routes: [] },
           "route" => { mode: :fiber, threads: [0, 2], routes: [[:thread, "*"]] },
           "fiber" => { mode: :fiber, max_fibers: 2, routes: [] },
           "guest" => { mode: :fiber, max_fibers: 2, routes: [], fiber_scheduler: "PlainScheduler" } }.freeze
  HEAD = ["POST", "/upload"].freeze

  def each_way(app = DIGEST, only: WAYS.keys, **options)
    WAYS.slice(*only).each do |name, way|
      running = serve(app, lint: false, **way, **options)
      yield running, name
      finish(running)
    end
  end

  def head(**fields) = request(*HEAD, fields.transform_keys { |name| name.to_s.tr("_", "-") })

  # One that has sent a part of its body, of which the engine knows.
  def unfinished(running, bytes)
    before = running.server.stats[:gathering]
    connect(running).write(bytes).tap do
      assert eventually { running.server.stats[:gathering] == before + 1 }, running.server.stats.inspect
    end
  end

  def idle?(running) = running.server.stats.values_at(:in_app, :waiting) == [0, 0]

  # Sixty of them, byte by byte, and two places: none has ended when the quick requests are done. Whether they
  # say that they are longer than what is held changes nothing.
  def test_slow_uploads_hold_up_nobody
    heads = [head(Content_Length: 4000), head(Content_Length: 100_000), "#{head(Transfer_Encoding: 'chunked')}fff\r\n"]
    each_way(DIGEST, rate_grace: 60) do |running, name|
      uploads = Array.new(60) { |i| connect(running).write(heads[i % 3]) }
      stop = false
      dribble = Thread.new do
        until stop
          uploads.each { |client| client.write("x") }
          sleep 0.05
        end
      end
      assert eventually { running.server.stats[:gathering] == 60 }, name
      quick = connect(running)
      20.times { assert_equal summary(""), quick.call(GET).body, name }
      assert eventually { running.server.stats[:in_app].zero? }, name
      assert_equal 60, running.server.stats[:gathering], name
      assert(uploads.all? { |client| client.silent?(0) })
    ensure
      stop = true
      dribble&.join
      uploads&.each(&:close)
    end
  end

  def test_cut_anywhere
    text = head(Content_Length: 5) + "hello" + head(Transfer_Encoding: "chunked") +
           "3\r\nhel\r\n2;x=1\r\nlo\r\n0\r\nA: b\r\n\r\n" + GET
    app = lambda do |env|
      [200, { "content-type" => "text/plain" }, [env["rack.input"].read.to_s, env["abaca.trailers"].inspect]]
    end
    each_way(app) do |running, name|
      cuts = (1...text.bytesize).map { |at| [text.byteslice(0, at), text.byteslice(at..)] }
      clients = cuts.map { |first, _| connect(running).write(first) }
      assert eventually { running.server.stats[:connections] == clients.size && idle?(running) }
      clients.zip(cuts) { |client, (_, rest)| client.write(rest) }
      clients.each do |client|
        assert_equal ["hellonil", %(hello{"a"=>"b"}), "nil"],
                     Array.new(3) { client.read.body.gsub(" => ", "=>") }, name
      end
      clients.each(&:close)
    end
  end

  def test_byte_by_byte
    text = head(Content_Length: 5) + "hello" + head(Transfer_Encoding: "chunked") + chunked("hel", "lo") + GET
    each_way do |running|
      client = connect(running)
      text.each_char { |byte| client.write(byte) }
      assert_equal ([summary("hello")] * 2) + [summary("")], Array.new(3) { client.read.body }
    end
  end

  # Of what is longer, announced or not, so much is waited for as may be held; then it streams, and loses nothing.
  def test_longer_ones_stream
    each_way(max_body_memory: 1_000) do |running, name|
      body = Random.new(1).bytes(30_000)
      announced = unfinished(running, head(Content_Length: body.bytesize) + body.byteslice(0, 999))
      endless = unfinished(running, head(Transfer_Encoding: "chunked") + chunked(body.byteslice(0, 990))[0..-6])
      assert idle?(running), name
      announced.write(body.byteslice(999, 1))
      endless.write("20\r\n" + body.byteslice(990, 32) + "\r\n")
      assert eventually { running.server.stats[:in_app] == 2 }, name
      assert_equal 0, running.server.stats[:gathering], name
      assert_equal summary(body), announced.call(body.byteslice(1_000..)).body
      assert_equal summary(body), endless.call(chunked(body.byteslice(1_022..))).body
    end
  end

  # The routes that want it are called with the head, and so are all without memory for any.
  def test_bodies_that_stream
    app = lambda do |env|
      [200, { "content-type" => "text/plain" }, Enumerator.new { |out| env["rack.input"].each { |line| out << line } }]
    end
    [{ stream_bodies: ["/other", "/upl*"] }, STREAMED].each do |options|
      each_way(app, **options) do |running, name|
        client = connect(running).write(head(Content_Length: 10))
        assert eventually { running.server.stats[:in_app] == 1 }, name
        assert_equal [0, 0], running.server.stats.values_at(:gathering, :gathered), name
        assert_equal "one\ntwo\nab", client.call("one\ntwo\nab").body
      end
    end
  end

  def test_without_memory_for_all_they_stream
    each_way(max_body_memory_total: 100) do |running, name|
      first = unfinished(running, head(Content_Length: 200) + ("x" * 99))
      second = connect(running).write(head(Content_Length: 5) + "hell")
      assert eventually { running.server.stats[:in_app] == 1 }, name
      assert_equal summary("hello"), second.call("o").body
      assert_equal summary("x" * 200), first.call("x" * 101).body
      assert eventually { running.server.stats[:gathered].zero? }
    end
  end

  # --- who never gets to the app ---

  def refused(running, status, *clients)
    clients.each do |client|
      response = client.read
      assert_equal [status, true], [response.status, response.close?]
      assert client.closed?
      client.close
    end
    assert eventually { running.server.stats.values_at(:gathering, :gathered) == [0, 0] }
    assert_equal 0, running.server.stats[:requests]
  end

  def test_too_slow
    announced = "#{head(Content_Length: 5)}he"
    endless = "#{head(Transfer_Encoding: 'chunked')}5\r\nhe"
    each_way(body_timeout: 1) do |running|
      refused(running, 408, *[announced, endless].map { |bytes| connect(running).write(bytes) })
    end
    [{ rate_grace: 1 }, { request_timeout: 1 }].each do |limit|
      running = serve(DIGEST, **WAYS["mode"], **limit)
      refused(running, 408, connect(running).write(announced))
    end
  end

  def test_no_body
    each_way do |running|
      refused(running, 400, unfinished(running, "#{head(Transfer_Encoding: 'chunked')}5\r\nhe").write("lloGET"))
    end
    each_way(max_body_size: 10) do |running|
      refused(running, 413, unfinished(running, "#{head(Transfer_Encoding: 'chunked')}5\r\nhe").write("llo\r\n6\r\n"))
    end
  end

  # Nothing runs for who has gone, and nothing is logged.
  def test_gone
    each_way do |running, name|
      %i[reset close half_close].each do |how|
        client = unfinished(running, head(Content_Length: 5) + "hell")
        client.public_send(how)
        assert eventually { running.server.stats[:connections].zero? }, "#{how}, #{name}"
      end
      assert eventually { running.server.stats.values_at(:gathering, :gathered) == [0, 0] }, name
      assert_equal [0, 0], running.server.stats.values_at(:requests, :errors)
      assert_equal "", running.log
    end
  end

  def test_half_closed_behind_the_body
    each_way do |running|
      client = unfinished(running, head(Content_Length: 5) + "hell")
      assert_equal summary("hello"), client.write("o").half_close.read.body
    end
  end

  # --- 100 Continue ---

  # Nobody else would say it: all threads are busy, and the server asks all the same.
  def test_the_server_asks
    gate = Queue.new
    app = lambda do |env|
      gate.pop if env["PATH_INFO"] == "/busy"
      DIGEST.call(env)
    end
    each_way(app, only: %w[mode route]) do |running, name|
      busy = Array.new(2) { connect(running).write(request("GET", "/busy")) }
      assert eventually { running.server.stats[:in_app] == 2 }, name
      client = connect(running).write(head(Content_Length: 5, Expect: "100-continue"))
      assert_equal 100, client.read_interim.status
      2.times { gate << true }
      response = client.call("hello")
      assert_equal [summary("hello"), []], [response.body, response.interim.map(&:status) - [100]]
      busy.each { |waiting| assert_equal 200, waiting.read.status }
    end
  end

  # --- the queue ---

  # It is empty as long as bodies are on their way, and its times begin behind them.
  def test_the_queue_begins_behind_the_body
    app = ->(env) { [200, { "content-type" => "text/plain" }, [env["abaca.queue_time"].to_s]] }
    each_way(app, max_queue: 1) do |running, name|
      clients = Array.new(20) { unfinished(running, head(Content_Length: 5) + "hell") }
      assert_equal [0, 0], running.server.stats.values_at(:waiting, :queued), name
      nothing_for(0.3)
      begun = now
      long_ago = request(*HEAD, "Content-Length" => "5", "X-Request-Start" => "t=#{Time.now.to_f}")
      proxied = unfinished(running, "#{long_ago}hell")
      its_way = now - begun # to where its body begins, which counts
      nothing_for(0.3)
      { clients.first => 0, proxied => its_way }.each do |client, earlier|
        before = now
        waited = client.call("o").body.to_f
        assert_operator waited, :<, now - before + earlier + 0.02, name
      end
      clients.drop(1).each { |client| assert_equal 200, client.call("o").status }
    end
  end

  # --- the end ---

  def test_a_stop_waits_for_bodies
    each_way do |running|
      client = unfinished(running, head(Content_Length: 5) + "hell")
      running.server.stop
      assert eventually { refused?(running) && running.server.stats[:connections] == 1 }
      response = client.call("o")
      assert_equal [summary("hello"), true], [response.body, response.close?]
      assert client.closed?
      client.close
    end
  end

  def test_a_body_that_does_not_come_in_time
    each_way(force_shutdown_after: 0.3) do |running|
      client = unfinished(running, head(Content_Length: 5) + "hell")
      running.server.stop
      response = client.read
      assert_equal [503, true], [response.status, response.close?]
      assert client.closed?
      client.close
      assert eventually { running.server.stats[:rejected][:shutdown] == 1 }
      assert_equal 0, running.server.stats[:requests]
    end
  end

  # On fibers the app says so, when it reads.
  def test_the_app_asks
    app = ->(env) { env["PATH_INFO"] == "/no" ? [403, {}, []] : DIGEST.call(env) }
    each_way(app, only: %w[fiber guest]) do |running, name|
      ask = { "Content-Length" => "5", "Expect" => "100-continue" }
      assert_equal [403, []], connect(running).call(request("POST", "/no", ask)).then { [_1.status, _1.interim] }, name
      client = connect(running).write(request(*HEAD, ask))
      assert_equal 100, client.read_interim.status
      assert_equal summary("hello"), client.call("hello").body
    end
  end
end
