# frozen_string_literal: true

# also: modes sanitized portable rubies

require "test_helper"
require "support/server_case"

# What a request's objects are called with may have code of its own, and that may wait: until the request is over,
# say, and another has come in its place. Then the call is for neither of them.
class RackLateArgumentsTest < Minitest::Test
  include ServerCase

  LINK = { "link" => "</a.css>; rel=preload" }.freeze

  # Says that it was asked for, and waits until it may answer.
  class Gate
    def initialize
      @asked = Queue.new
      @open = Queue.new
    end

    def pass
      @asked << true
      @open.pop
    end

    def await = @asked.pop
    def open = @open << true
  end

  # Each waits in the method by which the server asks for its value.
  class Seconds < Numeric
    def initialize(gate)
      super()
      @gate = gate
    end

    def to_f = @gate.pass && 0.001
  end

  Headers = Struct.new(:gate) do
    def each(&block) = LINK.each(&block)
    def to_h = gate.pass && LINK
  end

  Text = Struct.new(:gate) do
    def to_str = gate.pass && +""
    alias_method :to_s, :to_str
  end

  Number = Struct.new(:gate) do
    def to_int = gate.pass && 103
  end

  CALLS = {
    "inform with headers" => ->(env, gate) { env["abaca.client"].inform(103, Headers.new(gate)) },
    "inform with a status" => ->(env, gate) { env["abaca.client"].inform(Number.new(gate), LINK) },
    "request_timeout=" => ->(env, gate) { env["abaca.client"].request_timeout = Seconds.new(gate) },
    "add_time" => ->(env, gate) { env["abaca.deadline"].add_time(Seconds.new(gate)) },
    "read with a length" => ->(env, gate) { env["rack.input"].read(Number.new(gate)) },
    "read with a buffer" => ->(env, gate) { env["rack.input"].read(3, Text.new(gate)) },
    "readpartial with a length" => ->(env, gate) { env["rack.input"].readpartial(Number.new(gate)) },
    "readpartial with a buffer" => ->(env, gate) { env["rack.input"].readpartial(3, Text.new(gate)) }
  }.freeze

  CALLS.each do |name, call|
    define_method(:"test_#{name.tr(" ", "_")}") { check_too_late(Gate.new, &call) }
  end

  # The socket is made by a method that others may wait in, too.
  def test_hijack
    gate = Gate.new
    singleton = TCPSocket.singleton_class
    singleton.define_method(:for_fd) { |fd| gate.pass && super(fd) }
    check_too_late(gate) { |env| env["rack.hijack"].call }
  ensure
    singleton.remove_method(:for_fd)
  end

  private

  # The call waits at the gate until its request is over, and goes on beside the next one.
  def check_too_late(gate, &call)
    outcome = Queue.new
    server = serve(lint: false, **ServerCase::STREAMED) do |env|
      env["PATH_INFO"] == "/first" ? begin_call(env, gate, outcome, &call) : [200, TYPE, [end_call(gate, outcome)]]
    end
    assert_equal 200, ask(server, request("POST", "/first", body: "body")).status
    second = ask(server, request("POST", "/second", body: "body"))
    assert_equal [200, [], "IOError: the request is over"],
                 [second.status, second.interim, second.body[/\A[^:]*: [^:]*/]]
  end

  # Beside the request, which ends as soon as the call waits.
  def begin_call(env, gate, outcome)
    ServerCase.beside do
      outcome << begin
        yield(env, gate).inspect
      rescue StandardError => e
        "#{e.class}: #{e.message}"
      end
    end
    gate.await
    [200, TYPE, ["first"]]
  end

  # Its outcome, which comes while the next request runs.
  def end_call(gate, outcome)
    gate.open
    outcome.pop
  end
end
