# frozen_string_literal: true

# also: modes sanitized portable rubies

require "test_helper"
require "support/server_case"

# Header values that are not as Rack wants them: they are sent as Puma sends them, and the log names each header once.
# Lint, which refuses them, does not stand around these apps.
class RackValuesTest < Minitest::Test
  include ServerCase

  # Says of itself what no client shall see.
  class Opaque; end

  TIME = Time.utc(2026, 1, 2, 3, 4, 5)
  LINES = "a=1\nb=2"
  TEXTS = { 5 => "5", 2.5 => "2.5", :lax => "lax", true => "true", false => "false", nil => "",
            TIME => "2026-01-02 03:04:05 UTC", URI("http://a.test/x") => "http://a.test/x" }.freeze

  def test_values_are_sent_as_their_to_s
    running = serve(lint: false) { |env| [200, { "x-value" => TEXTS.keys[env["QUERY_STRING"].to_i] }, ["body"]] }
    TEXTS.each_value.with_index do |text, nth|
      response = ask(running, request("GET", "/path?#{nth}"))
      assert_equal [200, text, "body"], [response.status, response["x-value"], response.body]
    end
    line = %r{^abaca: warning: the header x-value \(GET /path\) is of the class Integer: it is sent as its to_s}
    assert running.logged?(line)
    assert_equal 1, running.log.lines.size, running.log
  end

  def test_a_length_that_is_an_integer
    client = connect(serve(lint: false) { [200, { "Content-Length" => 5 }, ["hello"].each] })
    2.times do
      response = client.call(GET)
      assert_equal [200, "5", "hello"], [response.status, response["content-length"], response.body]
    end
  end

  def test_a_length_of_nil_is_none
    response = ask(serve(lint: false) { [200, { "content-length" => nil }, ["hello"].each] })
    assert_equal [200, nil, "chunked", "hello"],
                 [response.status, response["content-length"], response["transfer-encoding"], response.body]
  end

  # In whatever way the body is sent, the head before it is put together anew.
  def test_each_kind_of_body
    values = { "x-number" => 7, "set-cookie" => [:one, "two"] }
    file = File.new(__FILE__)
    bodies = { "array" => ["hello"], "each" => ["hello"].each, "file" => file,
               "call" => ->(stream) { stream.write("hello") and stream.close },
               "outbox" => Abaca::Outbox.new { |out| out << "hello" } }
    running = serve(lint: false) { |env| [200, values, bodies.fetch(env["PATH_INFO"].delete("/"))] }
    bodies.each_key do |kind|
      response = ask(running, request("GET", "/#{kind}"))
      assert_equal [200, "7", %w[one two]], [response.status, response["x-number"], response.all("set-cookie")], kind
      assert_equal kind == "file" ? File.read(__FILE__) : "hello", response.body, kind
    end
  ensure
    file&.close
  end

  def test_lines_are_fields_of_their_own
    values = { "set-cookie" => "#{LINES}\n", "x-array" => [LINES, "c\n\nd"] }
    running = serve(lint: false) { [200, values, []] }
    response = ask(running)
    assert_equal [200, %w[a=1 b=2], ["a=1", "b=2", "c", "", "d"]],
                 [response.status, response.all("set-cookie"), response.all("x-array")]
    said = running.log.scan(/the header (\S+) \(.+\) has several lines/).flatten
    assert_equal Rack.release.to_i < 3 ? [] : %w[set-cookie x-array], said
  end

  def test_trailers_and_interim_responses
    trailers = { "x-sum" => 12, "x-lines" => LINES }
    running = serve(lint: false) do |env|
      env["abaca.client"].inform(103, { "x-hint" => 1 })
      [200, { "abaca.trailers" => -> { trailers } }, ["x"].each]
    end
    client = connect(running)
    client.write(GET)
    bytes = String.new
    bytes << client.read_some until bytes.end_with?("x-lines: b=2\r\n\r\n")
    assert_includes bytes, "HTTP/1.1 103 Early Hints\r\nx-hint: 1\r\n\r\n"
    assert bytes.end_with?("\r\n0\r\nx-sum: 12\r\nx-lines: a=1\r\nx-lines: b=2\r\n\r\n"), bytes
    assert running.logged?(/the header x-hint .+the header x-sum /m)
  end

  REFUSED = { "a Hash" => { "secret" => 1 }, "an Array in an Array" => [[1]], "an object without text" => Opaque.new,
              "a Proc" => -> {}, "CR" => "a\r\nb", "CR in a Symbol" => :"a\rb", "NUL behind a line" => "a\n\0" }.freeze
  LENGTHS = [-1, 2.5, :secret, TIME, true, "5\n5", [5, 5]].freeze

  # What has no text, and what would break the framing.
  def test_what_is_refused
    rows = [*REFUSED.values.map { |value| { "x" => value } }, *LENGTHS.map { |length| { "content-length" => length } },
            { "transfer-encoding" => :gzip }]
    running = serve(lint: false) { |env| [200, rows[env["QUERY_STRING"].to_i], ["secret"]] }
    rows.each_with_index do |row, nth|
      response = ask(running, request("GET", "/?#{nth}"))
      assert_equal 500, response.status, row.inspect
      refute_includes response.body, "secret"
    end
  end

  # A to_s that waits gives the thread, and the memory that heads are written in, to others.
  def test_a_text_that_waits
    slow = Class.new do
      def initialize(text) = @text = text

      def to_s
        sleep 0.02
        @text
      end
    end
    running = serve(lint: false) { |env| [200, { "x-own" => slow.new(env["QUERY_STRING"]) }, [env["QUERY_STRING"]]] }
    clients = Array.new(8) { |nth| connect(running).tap { |client| client.write(request("GET", "/?#{nth}")) } }
    clients.each_with_index do |client, nth|
      response = client.read
      assert_equal [200, nth.to_s, nth.to_s], [response.status, response["x-own"], response.body]
    end
  end

  # Names come from apps, perhaps made up for each request.
  def test_the_log_names_only_so_many
    running = serve(lint: false) { |env| [200, { "x-#{env['QUERY_STRING']}" => 1 }, []] }
    client = connect(running)
    (Abaca::PlainFields::NAMES + 5).times { |nth| assert_equal 200, client.call(request("GET", "/?#{nth}")).status }
    assert_equal Abaca::PlainFields::NAMES, running.log.lines.size
  end
end
