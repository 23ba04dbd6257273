# frozen_string_literal: true

require "test_helper"
require "support/http2_client"
require "support/process_case"
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
  ROOM = (ENV["LD_PRELOAD"].to_s.include?("asan") ? 64 : 20) << 20
  CALM = "ENHANCE_YOUR_CALM"
  GET = "headers $ es,eh :get"
  LARGE = "headers $ es,eh 8287 0406'/large' 0106'a.test'"

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
    rescue StandardError => e
      @failure = e.full_message
    end
  end

  # --- floods: frames that cost little ---

  def test_pings = assert_flood("ping 0 - 0000000000000000")
  def test_pings_whose_answers_are_not_read = assert_flood("ping 0 - 0000000000000000", reads: false)
  def test_settings = assert_flood("settings 0 - 0004 0000ffff")
  def test_settings_whose_acks_are_not_read = assert_flood("settings", reads: false)
  def test_priorities = assert_flood("priority 1 - 0000000010")
  def test_priority_updates = assert_flood("priority_update 0 - 00000001 'u=1'")
  def test_unknown_frames = assert_flood("0x42 0 - 00")
  def test_empty_data = assert_flood("data 1 -", before: "headers 1 eh :post")
  def test_padding = assert_flood("data 1 pad 03 000000", before: "headers 1 eh :post")
  def test_window_updates = assert_flood("window_update 0 - 00000001")

  # --- resets ---

  def test_rapid_resets
    assert_flood("#{GET} rst_stream $ - 00000008")
    assert_most
  end

  def test_rapid_resets_that_are_not_read
    assert_flood("#{GET} rst_stream $ - 00000008", reads: false)
    assert_most
  end

  def test_made_you_reset_by_windows
    assert_flood("headers $ es,eh :get window_update $ - 7fffffff")
    assert_most
  end

  def test_made_you_reset_by_lengths = assert_flood("headers $ eh :post3 data $ es 'ab'")
  def test_malformed_requests = assert_flood("headers $ es,eh :get 00 01'A' 01'b'")
  def test_more_streams_than_allowed = assert_flood("headers $ eh :post")

  # --- fields ---

  def test_continuations
    assert_ends(CALM) do |client, stream|
      client.send_words("headers $ es :get #{'continuation $ - ' * 9}", stream: stream)
    end
  end

  def test_references_to_one_field
    references = " be*16000"
    assert_ends(CALM) do |client, _|
      client.send_words("headers 1 es :get 40 01'a' 01'b'")
      8.times { client.send_words("continuation 1 -#{references}") }
    end
  end

  def test_a_head_without_end
    assert_ends(CALM) do |client, _|
      client.send_words("headers 1 es :get")
      20.times { |nth| client.send_words("continuation 1 - #{"00 02'x#{nth % 10}' 7f817c 78*16000"}") || break }
    end
  end

  # --- what takes its time ---

  def test_a_preface_without_settings = assert_ends("NO_ERROR", before: "preface")

  # It could have become a request of HTTP/1.
  def test_half_a_preface
    beside_honest_clients do
      socket = TCPSocket.new("127.0.0.1", @port)
      socket.write("PRI * HTTP/2.0\r\n")
      assert_match(%r{\A(HTTP/1\.1 408 |\z)}, socket.read)
      socket.close
    end
  end

  def test_a_slow_block
    assert_ends("NO_ERROR") do |client, _|
      client.send_words("headers 1 es :get")
      8.times do
        sleep 0.2
        client.send_words("continuation 1 -") || break
      end
    end
  end

  # The stream ends, and what it held is free.
  def test_a_window_of_nothing
    beside_honest_clients do
      client = Http2Client.new(@port, before: "preface settings 0 - 0004 00000000 0001 00000000")
      50.times { |nth| client.send_words(LARGE, stream: (2 * nth) + 1) }
      client.read_until(within: 20) { (0...50).all? { |nth| client.reset((2 * nth) + 1) } || client.ended? }
      client.close
    end
  end

  def test_a_window_that_opens_byte_by_byte
    beside_honest_clients do
      client = Http2Client.new(@port, before: "preface settings 0 - 0004 00000000 0001 00000000")
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
      clients = Array.new(4) do
        Http2Client.new(@port, before: "preface settings 0 - 0004 7fffffff window_update 0 - 7fff0000")
      end
      clients.each { |client| 20.times { |nth| client.send_words(LARGE, stream: (2 * nth) + 1) } }
      assert eventually { @command.descriptors == before + 4 }, "they are there"
      assert eventually { @command.descriptors == before }, "they are dropped"
      clients.each(&:close)
    end
  end

  private

  # Sends the words again and again, each time with another stream, until the server has enough.
  def assert_flood(words, before: nil, reads: true, code: CALM)
    assert_ends(code) do |client, first|
      client.send_words(before) if before
      (0..).step(50) do |at|
        bytes = Array.new(50) { |nth| Http2Frames.bytes(words, stream: first + 100 + (2 * (at + nth))) }.join
        break unless client.write(bytes)

        client.read_available if reads
        break if client.goaway || client.ended? || at > 20_000
      end
    end
  end

  # Three connections, one after another, end with this code.
  def assert_ends(code, before: "preface #{Http2Client::SETTINGS}")
    beside_honest_clients do
      3.times do
        client = Http2Client.new(@port, before: before)
        yield client, 1 if block_given?
        client.read_until(within: 20) { false }
        assert client.ended?
        assert_includes [code, nil], client.goaway # nil: the connection broke, and took it along
        client.close
      end
    end
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
