# frozen_string_literal: true

# also: modes sanitized portable

require "test_helper"
require "support/server_case"

# RFC 9110 15.2 and RFC 8297: interim responses of the app's, by rack.early_hints and
# env["abaca.client"].inform.
class Http1InterimTest < Minitest::Test
  include ServerCase

  LINKS = ["</a.css>; rel=preload; as=style", "</b.js>; rel=preload; as=script"].freeze

  # Calls the block with rack.early_hints, and answers with what it returns.
  def hinting(lint: true, **options, &block)
    serve(lint: lint, early_hints: true, **options) do |env|
      [200, TYPE.dup, [block.call(env["rack.early_hints"], env).inspect]]
    end
  end

  def test_early_hints
    client = connect(hinting { |hints| hints.call({ "link" => LINKS.first }) })
    response = client.call(GET)
    assert_equal ["nil", 1], [response.body, response.interim.size]
    interim = response.interim.first
    assert_equal [103, "Early Hints", [["link", LINKS.first]]], [interim.status, interim.reason, interim.headers]
    assert client.usable?
  end

  def test_they_leave_at_once
    gate = Queue.new
    client = connect(hinting do |hints|
      hints.call({ "link" => LINKS.first })
      gate.pop
    end)
    assert_equal 103, client.write(GET).read_interim.status
    gate << 1
    assert_equal 200, client.read.status
  end

  # Rack 3 gives an Array, Rack 2 one String with line ends, whatever Rack the server runs with.
  def test_values_of_several_lines
    [LINKS, LINKS.join("\n")].each do |value|
      response = ask(hinting(lint: false) { |hints| hints.call({ "link" => value }) })
      assert_equal LINKS, response.interim.first.all("link")
    end
  end

  def test_several_of_them
    response = ask(hinting { |hints| LINKS.each { |link| hints.call({ "link" => link }) } })
    assert_equal LINKS, response.interim.map { |interim| interim["link"] }
  end

  # RFC 9110 15.2: a client of HTTP/1.0 gets none.
  def test_http_1_0
    response = ask(hinting { |hints| hints.call({ "link" => LINKS.first }) }, request("GET", version: "1.0"))
    assert_equal [200, []], [response.status, response.interim]
  end

  def test_they_are_off_unless_asked_for
    running = serve { |env| [200, TYPE.dup, [env.key?("rack.early_hints").inspect]] }
    assert_equal "false", ask(running).body
  end

  def test_any_other_interim_status
    running = serve(lint: false) do |env|
      client = env["abaca.client"]
      [200, TYPE.dup, [[client.inform(102, {}), client.inform(199, { "x-a" => "1" })].inspect]]
    end
    response = ask(running)
    assert_equal "[true, true]", response.body
    assert_equal([[102, []], [199, [%w[x-a 1]]]], response.interim.map { |one| [one.status, one.headers] })
  end

  # RFC 9110 15.2.1, 15.2.2: these two are the server's; others are no interim responses.
  def test_statuses_that_are_not_the_apps
    running = serve(lint: false) do |env|
      seen = [100, 101, 99, 200, 0, -103, 2**40, "103", nil].map do |status|
        env["abaca.client"].inform(status, {})
      rescue ArgumentError, TypeError, RangeError
        :refused
      end
      [200, TYPE.dup, [seen.uniq.inspect]]
    end
    response = ask(running)
    assert_equal ["[:refused]", []], [response.body, response.interim]
  end

  REFUSED = {
    "CR" => { "x" => "a\rb" }, "NUL" => { "x" => "a\0" }, "ESC" => { "x" => "\e" }, "DEL" => { "x" => "\x7f" },
    "CR in an array" => { "x" => ["a", "b\r"] }, "name" => { "a b" => "c" }, "empty name" => { "" => "c" },
    "line end in a name" => { "a\r\nb" => "c" }, "symbol" => { x: "a" }, "hash" => { "x" => {} },
    "no hash" => 1, "nil" => nil,
    # RFC 9110 8.6, RFC 9112 6.1, 9: an interim response has no content and ends nothing.
    "length" => { "Content-Length" => "1" }, "coding" => { "transfer-encoding" => "chunked" },
    "connection" => { "connection" => "close" }, "trailer" => { "trailer" => "x" }
  }.freeze

  def test_what_is_refused
    REFUSED.each do |name, fields|
      seen = Queue.new
      running = hinting(lint: false) do |hints|
        hints.call({ "x-before" => "1" })
        hints.call(fields)
      rescue Abaca::AppError => e
        seen << e.message
      end
      response = ask(running)
      assert_equal 1, seen.size, name
      assert_equal [200, 1], [response.status, response.interim.size], name
    end
  end

  # Nothing below 0x20 but HTAB leaves in a field, whatever an app may give; what cannot go is refused
  # whole, so that the final response follows as ever.
  def test_no_control_byte_leaves
    random = Random.new(20_260_103)
    given = nil
    running = serve(lint: false) do |env|
      env["abaca.client"].inform(103, given)
      [200, TYPE.dup, ["sent"]]
    rescue Abaca::AppError
      [200, TYPE.dup, ["refused"]]
    end
    client = connect(running)
    seen = Array.new(400) do
      value = random.bytes(random.rand(0..5)).delete("\n")
      given = { "x-#{random.bytes(random.rand(0..2))}" => random.rand < 0.3 ? [value, random.bytes(1)] : value }
      response = client.call(GET) # which takes no byte that must not be there
      assert_equal response.body == "sent" ? 1 : 0, response.interim.size, given.inspect
      response.body
    end
    assert_equal %w[refused sent], seen.uniq.sort
  end

  # Keys for the server's eyes stay with the server.
  def test_keys_for_the_server
    response = ask(hinting(lint: false) { |hints| hints.call({ "rack.x" => "1", "abaca.y" => 2, "link" => "z" }) })
    assert_equal [%w[link z]], response.interim.first.headers
  end

  def test_too_late
    seen = Queue.new
    running = serve(lint: false, early_hints: true) do |env|
      [200, TYPE.dup, Enumerator.new do |out|
        out << "x"
        seen << env["rack.early_hints"].call({ "link" => "y" }) << env["abaca.client"].inform(103, {})
        seen << env["abaca.client"]
      end]
    end
    assert_equal [[], "x"], ask(running).then { |response| [response.interim, response.body] }
    assert_equal [nil, false], [seen.pop, seen.pop]
    assert_raises(IOError) { seen.pop.inform(103, {}) }
  end

  def test_pipelined_requests_keep_their_order
    client = connect(hinting { |hints, env| hints.call({ "link" => env["PATH_INFO"] }) })
    paths = %w[/1 /2 /3]
    client.write(paths.map { |path| request("GET", path) }.join)
    assert_equal(paths, paths.map { client.read.interim.first["link"] })
  end

  # Who never reads must not make memory grow.
  def test_a_client_that_does_not_read
    running = hinting(lint: false, write_timeout: 1) do |hints|
      100_000.times { hints.call({ "link" => "x" * 1_000 }) }
    end
    client = connect(running).write(GET)
    assert eventually { running.server.stats[:requests] == 1 }
    assert eventually { running.server.stats[:connections].zero? }
    assert_operator client.drain.bytesize, :<, 50_000_000
  rescue Errno::ECONNRESET
    nil
  end
end
