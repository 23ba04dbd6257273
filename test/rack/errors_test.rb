# frozen_string_literal: true

# also: modes sanitized portable rubies

require "test_helper"
require "support/server_case"

# lowlevel_error_handler and show_errors: what a client gets when the app has raised.
class RackErrorsTest < Minitest::Test
  include ServerCase

  def failing(**options, &block)
    block ||= ->(_env) { raise ArgumentError, "secret detail" }
    serve(block, lint: false, **options)
  end

  # As many arguments as it takes.
  def test_the_arguments
    handlers = {
      "one" => ->(error) { [501, TYPE.dup, [error.message]] },
      "two" => ->(error, env) { [502, TYPE.dup, ["#{error.class} #{env['PATH_INFO']}"]] },
      "three" => ->(error, _env, status) { [status, TYPE.dup, [error.message.size.to_s]] },
      "any" => proc { |*arguments| [504, TYPE.dup, [arguments.size.to_s]] },
      "object" => Class.new { def call(error) = [505, {}, [error.message.upcase]] }.new
    }
    expected = { "one" => [501, "secret detail"], "two" => [502, "ArgumentError /x"], "three" => [500, "13"],
                 "any" => [504, "3"], "object" => [505, "SECRET DETAIL"] }
    handlers.each do |name, handler|
      running = failing(lowlevel_error_handler: handler)
      client = connect(running)
      2.times do # it is the connection's next request, too
        response = client.call(request("GET", "/x"))
        assert_equal expected[name], [response.status, response.body], name
      end
      assert running.logged?(/error in the app: ArgumentError: secret detail/), name
    end
  end

  # What has failed leaves nothing behind: neither its fields, nor its framing, nor its body.
  def test_after_a_response_that_cannot_be_sent
    closed = Queue.new
    body = ["x"].each
    body.define_singleton_method(:close) { closed << :app }
    other = ["handled"].each
    other.define_singleton_method(:close) { closed << :handler }
    triplets = { "name" => [200, { "content-length" => "1", "x-a" => "1", "b d" => "" }, body],
                 "coding" => [200, { "transfer-encoding" => "chunked", "content-length" => "1" }, body],
                 "status" => [99, {}, body] }
    running = failing(lowlevel_error_handler: ->(_error) { [500, TYPE.dup, other] }) do |env|
      triplets.fetch(env["PATH_INFO"].delete("/"))
    end
    triplets.each_key do |name|
      response = ask(running, request("GET", "/#{name}"))
      assert_equal [500, "handled", nil], [response.status, response.body, response["x-a"]], name
      assert_equal %i[app handler], [closed.pop, closed.pop]
    end
  end

  def test_a_handler_that_fails
    answers = { "raises" => -> { raise "secret of the handler" }, "nothing" => -> {}, "status" => -> { [1, {}, []] },
                "throws" => -> { throw :nobody } }
    running = failing(lowlevel_error_handler: ->(_error, env) { answers.fetch(env["PATH_INFO"].delete("/")).call })
    client = connect(running)
    answers.each_key do |name|
      response = client.call(request("GET", "/#{name}"))
      assert_equal 500, response.status, name
      refute_includes response.body, "secret"
    end
    assert running.logged?(/secret of the handler/)
    assert_equal 2 * answers.size, running.log.scan("error in the app:").size
  end

  # Behind the head it is too late, and a client that has gone is nobody's.
  def test_when_it_is_not_asked
    asked = Queue.new
    running = failing(lowlevel_error_handler: ->(error) { [500, {}, [asked.push(error).size.to_s]] }) do |env|
      next [200, {}, ["content"]] if env["PATH_INFO"] == "/good"

      [200, TYPE.dup, Enumerator.new { |out| out << "begun" and raise "too late" }]
    end
    client = connect(running)
    client.write(GET)
    bytes = String.new
    while (some = client.read_some)
      bytes << some
    end
    assert bytes.end_with?("\r\n5\r\nbegun\r\n"), bytes
    assert_equal "content", ask(running, request("GET", "/good")).body
    assert_refused 400, "GET /\r\n\r\n", running
    assert_empty asked
  end

  def test_what_waits_in_a_handler
    running = failing(lowlevel_error_handler: ->(_error, env) { sleep(0.01) && [500, {}, [env["QUERY_STRING"]]] })
    clients = Array.new(5) { |nth| connect(running).tap { |client| client.write(request("GET", "/?#{nth}")) } }
    assert_equal %w[0 1 2 3 4], clients.map { |client| client.read.body }
  end

  def test_the_callbacks_of_the_response
    told = Queue.new
    running = failing(lowlevel_error_handler: ->(_error) { [503, { "x-by" => "handler" }, []] }) do |env|
      env["rack.response_finished"] << ->(_env, *rest) { told << rest }
      raise "secret"
    end
    ask(running)
    status, headers, error = told.pop
    assert_equal [503, { "x-by" => "handler" }, "secret"], [status, headers, error.message]
  end

  def test_shown_errors
    message = "<b>caf\u00e9</b>\xFF"
    running = failing(show_errors: true) { raise ArgumentError, message }
    response = ask(running)
    assert_equal [500, "text/plain; charset=utf-8", "nosniff"],
                 [response.status, response["content-type"], response["x-content-type-options"]]
    text = response.body.force_encoding(Encoding::UTF_8)
    assert_match(%r{\AAbaca caught this error: <b>caf\u00e9</b>\\xFF \(ArgumentError\)\n.*errors_test\.rb:\d+}, text)
    assert_equal "", ask(running, request("HEAD")).body
  end

  def test_an_object_shows_nothing_by_itself
    response = ask(failing(environment: "development"))
    assert_equal 500, response.status
    refute_includes response.body, "secret"
  end

  def test_settings
    error = assert_raises(ArgumentError) { Abaca::Config::DSL.new.lowlevel_error_handler }
    assert_match(/a handler or a block is needed/, error.message)
    assert_raises(ArgumentError) { Abaca::Config::DSL.new.lowlevel_error_handler(:puts) }
  end
end
