# frozen_string_literal: true

# also: modes sanitized portable rubies

require "test_helper"
require "support/server_case"

# What the app returns is checked before one byte of it is sent: what is not a response becomes a
# 500, logged in full, and the client learns nothing of it.
class RackTripletTest < Minitest::Test
  include ServerCase

  # An object that breaks off in a conversion.
  class Hostile
    def to_s
      raise "secret of to_s"
    end
    alias to_str to_s
    alias to_i to_s
    alias to_int to_s
    alias to_ary to_s
    alias to_a to_s
    alias to_hash to_s
    alias inspect to_s
  end

  class Shy
    def inspect = raise("secret inspect")
  end

  OK = [200, {}, ["secret body"]].freeze
  BAD = {
    "nil" => nil, "a string" => "secret", "an integer" => 200, "an empty array" => [], "two items" => [200, {}],
    "four items" => [200, {}, [], []], "a hash" => { "secret" => 1 }, "hostile triplet" => Hostile.new,
    "nil status" => [nil, {}, []], "status 200x" => ["200x", {}, []], "status 99" => [99, {}, []],
    "status 1000" => [1000, {}, []], "status 0" => [0, {}, []], "status -200" => [-200, {}, []],
    "status 2**64" => [2**64, {}, []], "float status" => [Float::NAN, {}, []], "status 101" => [101, {}, []],
    "status 100" => [100, {}, []], "hostile status" => [Hostile.new, {}, []], "array status" => [[200], {}, []],
    "nil headers" => [200, nil, []], "string headers" => [200, "secret", []], "integer headers" => [200, 1, []],
    "hostile headers" => [200, Hostile.new, []],
    "nil body" => [200, {}, nil], "integer body" => [200, {}, 7], "hostile body" => [200, {}, Hostile.new],
    "body of nil" => [200, {}, [nil]], "body of integers" => [200, {}, ["secret", 7]],
    "symbol key" => [200, { key: "secret" }, []], "nil key" => [200, { nil => "secret" }, []],
    "hostile value" => [200, { "x" => Hostile.new }, []],
    "empty name" => [200, { "" => "secret" }, []], "name with a blank" => [200, { "a b" => "secret" }, []],
    "name with a colon" => [200, { "a:" => "secret" }, []], "name with CRLF" => [200, { "a\r\nb" => "secret" }, []],
    "name with NUL" => [200, { "a\0b" => "secret" }, []], "name above 127" => [200, { "\u00e9" => "secret" }, []],
    "value with CR" => [200, { "x" => "a\rsecret" }, []],
    "value with CRLF" => [200, { "x" => "a\r\nset-cookie: secret" }, []],
    "value with NUL" => [200, { "x" => "a\0secret" }, []], "value with ESC" => [200, { "x" => "\e[31m" }, []],
    "value with DEL" => [200, { "x" => "\x7f" }, []], "CR in an array" => [200, { "x" => ["a", "b\rc"] }, []],
    "bad content-length" => [200, { "content-length" => "12x" }, []],
    "negative content-length" => [200, { "content-length" => "-1" }, []],
    "status -1" => [-1, {}, []], "status 102" => [102, {}, []], "status with a blank" => [" 200", {}, []],
    "status +200" => ["+200", {}, []], "status 0200" => ["0200", {}, []], "empty status" => ["", {}, []],
    "array of arrays" => [200, { "x" => [["secret"]] }, []], "body of frozen symbols" => [200, {}, %i[secret]],
    "LF in a name" => [200, { "a\nb" => "secret" }, []],
    "trailers that are none" => [200, { "abaca.trailers" => { "a b" => "secret" } }, ["x"].each],
    "a hijack that is none" => [200, { "rack.hijack" => "secret" }, []],
    "huge content-length" => [200, { "content-length" => "9" * 40 }, []],
    "two content-lengths" => [200, { "content-length" => %w[1 2] }, ["x"]]
  }.freeze

  # All rows on one server: each must leave it fit for the next.
  def test_bad_triplets
    running = serve(lint: false) { |env| env["PATH_INFO"] == "/" ? OK : BAD.values[env["PATH_INFO"].delete("/").to_i] }
    wrong = BAD.keys.each_with_index.filter_map do |name, nth|
      before = running.log.size
      response = ask(running, request("GET", "/#{nth}"))
      told = (response.headers.join + response.body)[/secret|ruby|\.rb|Hostile|abaca::/i]
      next "#{name}: #{response.status}" unless response.status == 500
      next "#{name}: the client learns #{told}" if told

      "#{name}: not logged" unless eventually { running.log.size > before }
    end
    assert_empty wrong
    assert_equal 200, ask(running).status
  end

  # The log names what is wrong, in a line of a bearable length, whatever it says of itself.
  def test_the_log_shows_what_was_refused
    rows = { "long" => [[200, {}, [], "x" * 100_000], /three members: \[200, {}, \[\], "x{150,200}\.\.\. \(/],
             "shy" => [[200, {}, Shy.new], /neither each nor call: #<RackTripletTest::Shy:\w+> \(/],
             "basic" => [[200, {}, BasicObject.new], /neither each nor call: #<BasicObject:\w+> \(/],
             "value" => [[200, { "x-a" => {} }, []], /this field's value is not a String: "x-a" \(/] }
    running = serve(lint: false) { |env| rows.fetch(env["PATH_INFO"].delete("/")).first }
    rows.each do |name, (_triplet, line)|
      assert_equal 500, ask(running, request("GET", "/#{name}")).status
      assert running.logged?(/AppError: invalid response: .*#{line}/), name
    end
  end

  # Rack 2 lets the status be a String, and the headers anything with each.
  def test_what_converts_is_accepted
    headers = Class.new do
      include Enumerable

      def each = yield("x-a", "1")
    end.new
    {
      ["200", {}, []] => 200, [200, headers, []] => 200, [200, { "x" => "" }, []] => 200,
      [200, { "x" => "\ta \u00e9\xFF" }, []] => 200, [200, [%w[x-a 1]], []] => 200
    }.each do |triplet, expected|
      assert_equal expected, ask(serve(lint: false) { triplet }).status, triplet.inspect
    end
  end

  # Lint says no, but nothing here needs to change what the app gave: apps that keep one response in a
  # constant are served. The same Array answers twice.
  def test_frozen_responses
    frozen = [200, { "x-a" => %w[1 2].freeze, "x-b" => "3" }.freeze, %w[a b].freeze].freeze
    client = connect(serve(lint: false) { frozen })
    2.times do
      response = client.call(GET)
      assert_equal [200, %w[1 2], "3", "ab"],
                   [response.status, response.all("x-a"), response["x-b"], response.body]
    end
  end

  # What is like a triplet is one.
  def test_a_triplet_by_to_ary
    triplet = Struct.new(:to_ary).new([201, {}, ["x"]])
    assert_equal 201, ask(serve(lint: false) { triplet }).status
  end

  def test_values_pass_unchanged
    values = { "x-a" => "caf\xC3\xA9".b, "x-b" => "a\tb", "x-c" => "", "x-d" => "x" * 100_000, "x-e" => "\xFF".b }
    response = ask(serve(lint: false) { [200, values.dup, []] })
    values.each { |name, value| assert_equal value, response[name].b, name }
  end

  def test_the_app_raises
    running = serve(lint: false) { raise "secret detail" }
    client = connect(running)
    2.times do
      response = client.call(GET)
      assert_equal 500, response.status
      refute_includes response.body, "secret"
      refute response.close?
    end
    assert running.logged?(/secret detail/)
    assert running.logged?(/triplet_test\.rb:\d+/), "no backtrace"
  end

  def test_the_app_raises_without_having_read_the_body
    running = serve(lint: false) { |env| env["PATH_INFO"] == "/" ? OK : raise("broken") }
    client = connect(running)
    response = client.call(request("POST", "/bad", body: "GET /x HTTP/1.1\r\n\r\n" * 10))
    assert_equal 500, response.status
    return assert(client.closed?) if response.close?

    assert_equal 200, client.call(GET).status
  end

  # Everything a request's code can throw at the server; the next request must be served as ever.
  RAISED = {
    "RuntimeError" => -> { raise "x" }, "Exception" => -> { raise Exception, "x" }, # rubocop:disable Lint/RaiseException
    "NotImplementedError" => -> { raise NotImplementedError }, "ScriptError" => -> { raise LoadError, "x" },
    "SystemStackError" => -> { deep = ->(n) { deep.call(n + 1) + 1 } and deep.call(0) },
    "NoMethodError" => -> { nil.nothing }, "throw" => -> { throw :nobody }, "frozen" => -> { "" << "x" },
    "StopIteration" => -> { raise StopIteration }, "Errno" => -> { raise Errno::EPIPE },
    "IOError" => -> { raise IOError, "x" },
    "EOFError" => -> { raise EOFError }, "Timeout" => -> { Timeout.timeout(0.01) { sleep 1 } },
    "FiberError" => -> { raise FiberError, "x" }, "ThreadError" => -> { raise ThreadError, "x" },
    "exotic message" => -> { raise "\xFF\0\e[31m\r\nabaca: forged line" },
    "message that raises" => -> { raise Class.new(StandardError) { def message = raise("again") } }
  }.freeze

  RAISED.each do |name, code|
    define_method("test_app_ends_with_#{name.tr(' ', '_')}") do
      running = serve(lint: false) { |env| env["PATH_INFO"] == "/" ? OK : code.call }
      response = ask(running, request("GET", "/bad"))
      assert_equal 500, response.status
      refute_match(/nobody|nothing|stack|forged/i, response.body)
      assert_equal 200, ask(running).status
      refute_match(/^abaca: forged/, running.log)
      refute_empty running.log
    end
  end

  # No byte below 0x20 except HTAB, nor DEL, leaves in a field; what cannot go makes a 500.
  def test_no_control_byte_leaves
    random = Random.new(20_260_101)
    given = nil
    running = serve(lint: false) { [200, given.dup, ["body"]] }
    client = connect(running)
    400.times do
      name = "x-#{random.bytes(random.rand(0..3))}"
      value = random.bytes(random.rand(0..8))
      given = { name => random.rand < 0.3 ? [value, random.bytes(2)] : value }
      bytes = one_response(client.write(GET))
      head, body = bytes.split("\r\n\r\n", 2)
      assert_includes %w[200 500], head[9, 3], given.inspect
      assert head.split("\r\n").none? { |line| line.match?(/[\x00-\x08\x0a-\x1f\x7f]/n) }, given.inspect
      assert_equal "body", body, given.inspect if head.start_with?("HTTP/1.1 200")
      client = connect(running) if head.match?(/^connection: close\r?$/i)
    end
  end

  private

  # One response's bytes as they came; its body's length is that of its Content-Length.
  def one_response(client)
    bytes = String.new(encoding: Encoding::BINARY)
    until (head = bytes[/\A.*?\r\n\r\n/mn]) && bytes.bytesize >= head.bytesize + head[/^content-length: (\d+)/in,
                                                                                      1].to_i
      bytes << (client.read_some or break)
    end
    bytes
  end
end
