# frozen_string_literal: true

# also: modes sanitized portable rubies

require "test_helper"
require "support/server_case"

# What is called when a response is done: rack.response_finished (Rack SPEC) and rack.after_reply
# (Puma's), on every path, once, and after the bytes have left.
class RackFinishedTest < Minitest::Test
  include ServerCase

  Call = Struct.new(:status, :headers, :error, :path)

  # A server whose app registers a callback for each request and then does what the block says.
  def watched(seen, **options, &block)
    serve(lint: false, **options) do |env|
      env["rack.response_finished"] << lambda do |given, status, headers, error|
        seen << Call.new(status, headers, error, given["PATH_INFO"])
      end
      block.call(env)
    end
  end

  def call_of(seen)
    assert eventually { !seen.empty? }, "never called"
    seen.pop.tap { assert_empty seen, "called again" }
  end

  def test_arguments
    seen = Queue.new
    ask(watched(seen) { [201, TYPE.dup, ["x"]] }, request("GET", "/page"))
    assert_equal Call.new(201, TYPE, nil, "/page"), call_of(seen)
  end

  def test_lint_has_nothing_to_say
    seen = Queue.new
    running = serve do |env|
      env["rack.response_finished"] << ->(_env, status, *) { seen << status }
      [200, TYPE.dup, ["x"]]
    end
    ask(running)
    assert_equal 200, seen.pop
  end

  # Rack SPEC: "The callables will be called in reverse order."
  def test_the_last_one_comes_first
    seen = Queue.new
    running = serve(lint: false) do |env|
      3.times { |nth| env["rack.response_finished"] << ->(*) { seen << nth } }
      [200, TYPE.dup, []]
    end
    ask(running)
    assert_equal [2, 1, 0], Array.new(3) { seen.pop }
  end

  def test_after_reply_has_no_arguments_and_runs_in_order
    seen = Queue.new
    running = serve do |env|
      2.times { |nth| env["rack.after_reply"] << -> { seen << nth } }
      [200, TYPE.dup, []]
    end
    ask(running)
    assert_equal [0, 1], Array.new(2) { seen.pop }
  end

  def test_the_response_has_left_before
    gate = Queue.new
    running = serve do |env|
      env["rack.response_finished"] << ->(*) { gate.pop }
      [200, TYPE.dup, ["early"]]
    end
    client = connect(running)
    assert_equal "early", client.call(GET).body
    # Nor does the connection wait for it.
    gate << 1 << 2
    assert_equal "early", client.call(GET).body
  end

  def test_a_callback_may_wait
    seen = Queue.new
    running = watched(seen) do |env|
      env["rack.after_reply"] << lambda do
        sleep 0.02
        seen << :waited
      end
      [200, TYPE.dup, []]
    end
    ask(running)
    assert_instance_of Call, seen.pop
    assert_equal :waited, seen.pop
  end

  # Each row: method, app, status, class of the error.
  PATHS = {
    "head" => ["HEAD", -> { [200, TYPE.dup, ["x"]] }, 200, nil],
    "204" => ["GET", -> { [204, {}, []] }, 204, nil],
    "304" => ["GET", -> { [304, {}, []] }, 304, nil],
    "each" => ["GET", -> { [200, TYPE.dup, %w[a b].each] }, 200, nil],
    "raise" => ["GET", -> { raise ArgumentError, "x" }, 500, ArgumentError],
    "bad triplet" => ["GET", -> { [200, { "x" => {} }, []] }, 500, Abaca::AppError],
    "no triplet" => ["GET", -> {}, 500, Abaca::AppError],
    "raise in each" => ["GET", -> { [200, TYPE.dup, Enumerator.new { raise IOError, "x" }] }, 200, IOError]
  }.freeze

  PATHS.each do |name, (verb, app, status, error)|
    define_method("test_#{name.tr(' ', '_')}") do
      seen = Queue.new
      running = watched(seen) { app.call }
      connect(running).write(request(verb)).read_some
      call = call_of(seen)
      assert_equal [status, error], [call.status, call.error&.class]
      assert_kind_of Hash, call.headers
    end
  end

  def test_disconnect
    seen = Queue.new
    running = watched(seen) { [200, TYPE.dup, Enumerator.new { |out| loop { out << ("x" * 100_000) } }] }
    client = connect(running).write(GET)
    client.read_some
    client.close
    assert_instance_of Abaca::PeerError, call_of(seen).error
  end

  def test_close_raises
    seen = Queue.new
    body = Object.new
    body.define_singleton_method(:each) { |&block| block.call("x") }
    body.define_singleton_method(:close) { raise KeyError, "x" }
    ask(watched(seen) { [200, TYPE.dup, body] })
    assert_instance_of KeyError, call_of(seen).error
  end

  def test_exceptions_are_logged_and_the_others_run
    seen = Queue.new
    running = serve(lint: false) do |env|
      env["rack.response_finished"] << ->(*) { seen << :first } << ->(*) { raise "secret of the callback" } << :nothing
      env["rack.after_reply"] << -> { raise "another one" } << -> { seen << :last }
      [200, TYPE.dup, ["x"]]
    end
    client = connect(running)
    assert_equal "x", client.call(GET).body
    assert_equal %i[first last], Array.new(2) { seen.pop }
    assert running.logged?(/secret of the callback/)
    assert running.logged?(/another one/)
    assert running.logged?(%r{AppError: what the response's end calls has no call: :nothing \(GET /}), running.log
    assert client.usable?
  end

  # The app may put something else there, or freeze what it found.
  def test_lists_that_the_app_has_replaced_or_frozen
    seen = Queue.new
    running = serve(lint: false) do |env|
      env["rack.response_finished"] << ->(*) { seen << :kept }
      env["rack.response_finished"].freeze
      env["rack.after_reply"] = nil
      [200, TYPE.dup, ["x"]]
    end
    assert_equal "x", ask(running).body
    assert_equal :kept, seen.pop
  end

  def test_each_request_has_lists_of_its_own
    seen = Queue.new
    running = serve do |env|
      seen << [env["rack.response_finished"], env["rack.after_reply"], env["abaca.client"]]
      [200, TYPE.dup, []]
    end
    client = connect(running)
    client.write(GET * 2)
    2.times { client.read }
    first, second = Array.new(2) { seen.pop }
    first.zip(second).each { |one, other| refute_same one, other }
    assert_instance_of Abaca::Exchange, first.last
  end
end
