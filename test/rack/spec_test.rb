# frozen_string_literal: true

# also: modes sanitized portable rubies

require "test_helper"
require "support/server_case"

# Rack's specification in its own order, sentence by sentence where no other test is about it; the number
# in a test's name is that of the part in docs/conformance.md. RACK=2.2 holds it against that version.
class RackSpecTest < Minitest::Test
  include ServerCase

  RACK3 = Rack.release >= "3"
  TEXT = { "content-type" => "text/plain" }.freeze

  # Runs the block with the env of one request; fails with what the block raises.
  def in_request(bytes = GET, **options)
    failure = nil
    running = serve(lint: false, **options) do |env|
      yield env
      [200, TEXT.dup, ["done"]]
    rescue Minitest::Assertion, StandardError => e
      failure = e
      [200, TEXT.dup, ["failed"]]
    end
    ask(running, bytes)
    raise failure if failure
  end

  # The response to a triplet, unseen by Lint.
  def give(status, headers, body)
    ask(serve(lint: false) { [status, headers, body] })
  end

  def test_1_the_app_is_called_once_for_each_request_with_the_env
    seen = Queue.new
    running = serve { |*arguments| [200, TEXT.dup, [(seen << arguments).size.to_s]] }
    client = connect(running)
    assert_equal %w[1 2], Array.new(2) { client.call(GET).body }
    assert_equal 1, seen.pop.size
  end

  def test_2_the_env_is_an_unfrozen_hash_of_its_own
    ids = Queue.new
    client = connect(serve(lint: false) do |env|
      ids << [env.class, env.frozen?, env.key?("mine")]
      env["mine"] = "mine"
      [200, TEXT.dup, []]
    end)
    2.times { client.call(GET) }
    2.times { assert_equal [Hash, false, false], ids.pop }
  end

  def test_2_the_cgi_keys_that_must_be_there
    in_request(request("GET", "/a?b")) do |env|
      %w[REQUEST_METHOD SCRIPT_NAME PATH_INFO QUERY_STRING SERVER_NAME SERVER_PORT SERVER_PROTOCOL].each do |key|
        assert_kind_of String, env[key], key
      end
      refute env.key?("HTTP_CONTENT_TYPE") || env.key?("HTTP_CONTENT_LENGTH")
      assert_match(/\A\d+\z/, env["SERVER_PORT"])
    end
  end

  def test_2_keys_without_a_dot_have_strings
    in_request(request("POST", "/", "X-Y" => "z", body: "x")) do |env|
      env.each { |key, value| assert_kind_of String, value, key unless key.include?(".") }
    end
  end

  def test_2_the_keys_of_rack_2
    in_request do |env|
      unless RACK3
        assert_kind_of Array, env["rack.version"]
        %w[rack.multithread rack.multiprocess rack.run_once].each { |key| assert_includes [true, false], env[key], key }
      end
      assert_includes %w[http https], env["rack.url_scheme"]
    end
  end

  def test_3_the_input_stream
    in_request(request("POST", body: "one\ntwo\nthree")) do |env|
      input = env["rack.input"]
      assert_equal "one\n", input.gets
      assert_equal "tw", input.read(2)
      assert_equal "", input.read(0)
      buffer = +"old"
      assert_same buffer, input.read(2, buffer)
      assert_equal "o\n", buffer
      lines = +""
      input.each { |line| lines << "[#{line}]" }
      assert_equal "[three]", lines
      assert_equal [nil, "", nil], [input.read(1), input.read, input.gets]
      assert_equal Encoding::BINARY, buffer.encoding
    end
  end

  def test_4_the_error_stream
    closed = nil
    running = serve(lint: false) do |env|
      errors = env["rack.errors"]
      errors.puts(:a_symbol)
      errors.write("written\n")
      errors.flush
      closed = errors.respond_to?(:closed?) && errors.closed?
      [200, TEXT.dup, []]
    end
    2.times { assert_equal 200, ask(running).status }
    refute closed
    assert_equal 2, running.log.scan(/^a_symbol\nwritten\n/).size
  end

  def test_7_a_status_is_an_integer_of_at_least_100
    assert_equal 299, give(299, TEXT.dup, []).status
    assert_equal 500, give(99, TEXT.dup, []).status
  end

  def test_7_headers_with_rack_in_front_are_not_sent
    response = give(200, TEXT.merge("rack.x" => "secret"), ["ok"])
    assert_equal [200, "ok", nil], [response.status, response.body, response["rack.x"]]
  end

  def test_7_a_value_may_be_an_array_or_have_lines
    assert_equal %w[a=1 b=2], give(200, TEXT.merge("set-cookie" => %w[a=1 b=2]), []).all("set-cookie")
    lines = give(200, TEXT.merge("set-cookie" => "a=1\nb=2"), [])
    assert_equal %w[a=1 b=2], lines.all("set-cookie") # under Rack 3 as Puma does it: test/rack/values_test.rb
    assert_equal 200, lines.status
  end

  def test_7_each_goes_before_call
    body = Object.new
    def body.each = yield("each")
    def body.call(_stream) = raise("not to be called")
    assert_equal "each", give(200, TEXT.dup, body).body
  end

  def test_7_a_body_is_consumed_once_and_closed_once
    calls = []
    body = Object.new
    body.define_singleton_method(:each) { |&block| (calls << :each) && block.call("x") }
    body.define_singleton_method(:close) { calls << :close }
    assert_equal "x", give(200, TEXT.dup, body).body
    assert(eventually { calls.include?(:close) })
    assert_equal %i[each close], calls
  end

  def test_7_a_path_of_nil_is_none
    body = Object.new
    def body.to_path = nil
    def body.each = yield("each")
    assert_equal "each", give(200, TEXT.dup, body).body
  end

  # In Rack 3 to_ary closes the body, in Rack 2 it is nothing to a server.
  def test_7_to_ary_stands_for_each
    calls = []
    body = Object.new
    body.define_singleton_method(:each) { |&block| (calls << :each) && block.call("ab") }
    body.define_singleton_method(:to_ary) { (calls << :to_ary) && %w[a b] }
    body.define_singleton_method(:close) { calls << :close }
    response = give(200, TEXT.dup, body)
    assert_equal "ab", response.body
    assert(eventually { calls.size >= (RACK3 ? 1 : 2) })
    assert_equal RACK3 ? %i[to_ary] : %i[each close], calls
    assert_equal RACK3 ? "2" : nil, response["content-length"]
  end

  def test_7_the_stream_of_a_streaming_body
    missing = nil
    body = lambda do |stream|
      names = %i[read write << flush close close_read close_write closed?]
      missing = names.reject { |name| stream.respond_to?(name) }
      before = stream.closed?
      stream.write("a", "b")
      stream << "c" << "d"
      stream.flush
      stream.close
      stream.write("late") unless before || stream.closed?
    end
    assert_equal "abcd", give(200, TEXT.dup, body).body
    assert_empty missing
  end
end
