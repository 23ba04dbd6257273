# frozen_string_literal: true

require "test_helper"
require "support/http2_attacks"
require "support/process_case"
require "support/test_build"
require "support/waits"

# Plays what is known to have brought servers down, beside clients that go on. Each attacker comes to the end that
# ext/abaca/http2/README.md documents, the others are answered, and the server's memory stays what it was.
class Http2AttacksTest < Minitest::Test
  include ProcessCase
  include Waits

  APP = <<~RUBY
    running = most = 0
    large = ("x" * 10_000_000).freeze
    run lambda { |env|
      case env["PATH_INFO"]
      when "/most" then [200, {}, [most.to_s]]
      when "/large" then [200, {}, [large]]
      else
        most = [most, running += 1].max
        begin
          sleep 0.01
          env["rack.input"]&.read
        ensure
          running -= 1
        end
        [200, { "content-type" => "text/plain" }, ["hello"]]
      end
    }
  RUBY
  CONFIG = <<~RUBY
    bind "tcp://127.0.0.1:0?h2c=true"
    header_timeout 1
    write_timeout 1
    body_timeout 1
    linger_timeout 1
    rate_grace 1
  RUBY
  HONEST = 8
  # Bytes that the server may grow by. A sanitizer keeps what is freed for a while.
  ROOM = (TestBuild.sanitized? ? 64 : 20) << 20
  GET = Http2Attacks::GET
  LARGE = Http2Attacks::LARGE

  def setup
    super
    File.write(File.join(@directory, "config.ru"), APP)
    File.write(File.join(@directory, "settings.rb"), CONFIG)
    @command = start_abaca("-C", "settings.rb", "config.ru")
    @port = @command.port
  end

  # One client that asks, in its thread, one request after another on a connection.
  class Honest
    attr_reader :answered, :failure

    def initialize(port)
      @client = Http2Client.new(port)
      @answered = 0
      @thread = Thread.new { ask until @stop || @failure }
    end

    def stop
      @stop = true
      @thread.join(20) || raise("a client is stuck")
      @client.close
    end

    private

    def ask
      stream = (2 * @answered) + 1
      @client.send_words(GET, stream: stream)
      @client.read_until { @client.complete?(stream) }
      return @failure = "ended: #{@client.goaway}" unless @client.complete?(stream)

      @client.frames.clear
      @answered += 1
      sleep 0.02 # the attacks are what computes
    rescue StandardError => e
      @failure = e.full_message
    end
  end

  # One after another, so that the server has to bear all of them.
  def test_frames_that_cost_little = assert_all_end(Http2Attacks::FRAMES)
  def test_fields = assert_all_end(Http2Attacks::FIELDS)
  def test_what_takes_its_time = assert_all_end(Http2Attacks::SLOW)

  # Each has a server of its own: the requests that ran at once are counted from its start.
  Http2Attacks::RESETS.each do |name, attack|
    define_method("test_#{name}") do
      assert_all_end(name => attack)
      assert_most
    end
  end

  # It could have become a request of HTTP/1.
  def test_half_a_preface
    beside_honest_clients do
      socket = TCPSocket.new("127.0.0.1", @port)
      socket.write("PRI * HTTP/2.0\r\n")
      assert_match(%r{\A(HTTP/1\.1 408 |\z)}, socket.read)
      socket.close
    end
  end

  # The stream ends, and what it held is free.
  def test_a_window_of_nothing
    beside_honest_clients do
      client = Http2Client.new(@port, before: Http2Attacks::SHUT)
      50.times { |nth| client.send_words(LARGE, stream: (2 * nth) + 1) }
      client.read_until { (0...50).all? { |nth| client.reset((2 * nth) + 1) } || client.ended? }
      client.close
    end
  end

  def test_a_window_that_opens_byte_by_byte
    beside_honest_clients do
      client = Http2Client.new(@port, before: Http2Attacks::SHUT)
      client.send_words(LARGE, stream: 1)
      200.times do
        sleep 0.05
        client.send_words("window_update 1 - 00000001")
        client.read_available
        break if client.reset(1)
      end
      assert client.reset(1)
      assert_operator client.body(1).bytesize, :<, 200
      client.close
    end
  end

  def test_responses_that_are_not_read
    beside_honest_clients do
      before = @command.descriptors
      clients = Array.new(4) { Http2Client.new(@port, before: Http2Attacks::OPEN) }
      clients.each { |client| 20.times { |nth| client.send_words(LARGE, stream: (2 * nth) + 1) } }
      assert eventually { @command.descriptors == before + 4 }, "they are there"
      assert eventually { @command.descriptors == before }, "they are dropped"
      clients.each(&:close)
    end
  end

  private

  def assert_all_end(attacks)
    beside_honest_clients { attacks.each { |name, attack| 3.times { assert_ends(name, attack) } } }
  end

  # A connection ends with its code.
  def assert_ends(name, attack)
    client = Http2Client.new(@port, before: attack.before)
    attack.play.call(client)
    client.read_until { false }
    assert client.ended?, name
    assert_includes [attack.code, nil], client.goaway, name # nil: the connection broke, and took it along
    client.close
  end

  def beside_honest_clients
    honest = Array.new(HONEST) { Honest.new(@port) }
    assert eventually { honest.all? { |one| one.answered > 2 } }
    memory = @command.resident
    yield
    counts = honest.map(&:answered)
    assert eventually { honest.zip(counts).all? { |one, count| one.answered > count + 2 || one.failure } }
    honest.each(&:stop)
    assert_equal [nil] * HONEST, honest.map(&:failure)
    assert_operator @command.resident - memory, :<, ROOM
  end

  # So many requests ran at once: as many as the honest clients have, and the attacker's connections may have.
  def assert_most
    client = Http2Client.new(@port)
    client.send_words("headers 1 es,eh 8287 0405'/most' 0106'a.test'")
    client.read_until { client.complete?(1) }
    assert_operator client.body(1).to_i, :<=, (3 * 100) + HONEST
    client.close
  end
end
