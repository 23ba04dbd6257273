# frozen_string_literal: true

require "digest"
require_relative "../support/wire"
require_relative "handshakes"
require_relative "streams"

module Soak
  # What a client does, each time on a connection of its own: one of these, at random. A client that gets
  # something else than it should raises.
  class Actions
    include Streams
    include Handshakes

    # The answer is not what it should be.
    class Wrong < StandardError; end

    # Ports of the server on 127.0.0.1, in clear and with TLS, and the certificate that its own is verified with.
    Places = Struct.new(:plain, :secure, :authority)

    # name => how often, in shares. Most is ordinary; the rest is what goes wrong on the way.
    SHARES = {
      kept: 30, pipelined: 8, waits: 15, posts: 8, posts_chunked: 6, pieces: 6, streams: 4, large: 3, slow_reader: 2,
      file: 4, joins: 2, hijacks: 2, hints: 2, forks: 1, converses: 4,
      leaves_waiting: 6, leaves_uploading: 3, leaves_downloading: 3, leaves_conversing: 3, malformed: 4,
      half_a_head: 1, raises: 4, too_late: 2, stubborn: 1, burns: 1, in_time_or_not: 6, leaves_at_the_end: 4, **Streams::SHARES,
      **Handshakes::SHARES
    }.freeze
    NAMES = SHARES.flat_map { |name, share| [name] * share }.freeze
    # Those that make their connections themselves.
    APART = [*Streams::SHARES.keys, *Handshakes::SHARES.keys].freeze
    SECURE = 50 # of a hundred connections: those through TLS, whatever goes through them
    FILE = File.read(File.join(__dir__, "config.ru"))

    # @param places [Places]
    # @param random [Random]
    # @param patience [Numeric] seconds that any wait may take
    def initialize(places:, random:, patience:)
      @places = places
      @random = random
      @patience = patience
    end

    # @return [Symbol] what was done
    def take
      name = NAMES.sample(random: @random)
      @secure = @random.rand(100) < SECURE
      return name.tap { public_send(name) } if APART.include?(name)

      client = @secure ? secure_client : Wire::Client.new(@places.plain, timeout: @patience)
      public_send(name, client)
      name
    rescue StandardError => e
      raise Wrong, "#{name}#{" (TLS)" if @secure}: #{e.message} (#{e.class})"
    ensure
      client&.close
    end

    def kept(client) = @random.rand(1..20).times { expect(ask(client, "/hello"), 200, "Hello World\n") }

    def pipelined(client)
      client.write(head("/hello") * 8)
      8.times { expect(client.read, 200, "Hello World\n") }
    end

    def waits(client) = expect(ask(client, "/sleep"), 200, "slept")
    def pieces(client) = expect(ask(client, "/pieces"), 200, "x" * 20_000)
    def streams(client) = expect(ask(client, "/stream"), 200, "x" * 20_000)
    def large(client) = expect(ask(client, "/large"), 200, "y" * 1_000_000)
    def file(client) = expect(ask(client, "/file"), 200, FILE.b)
    def joins(client) = expect(ask(client, "/thread"), 200, "joined")
    def hijacks(client) = expect(ask(client, "/hijack"), 200, "taken")
    def raises(client) = expect(ask(client, "/boom"), 500)
    def hints(client) = expect(ask(client, "/hints"), 200, "hinted")
    def forks(client) = expect(ask(client, "/fork"), 200, "7")
    def burns(client) = expect(ask(client, "/burn"), 200, "burnt")
    def stubborn(client) = expect(ask(client, "/stubborn"), 200, "all the same")
    # A thread is interrupted only where the server waits for it, so its answer may come all the same.
    def too_late(client) = expect(ask(client, "/late"), 504, 200)

    # Its time is over when it is done, or just before.
    def in_time_or_not(client)
      3.times do
        response = ask(client, "/edge")
        expect(response, 200, 504)
        break if response.close?
      end
    end

    # With an app that has taken the connection over.
    def converses(client)
      client.write(head("/converse"))
      @random.rand(1..10).times do
        words = @random.bytes(@random.rand(1..10_000))
        answer = String.new(encoding: Encoding::BINARY)
        client.write(words)
        answer << (client.read_some || raise(EOFError, "the conversation has ended")) while answer.size < words.size
        raise Wrong, "#{answer.size} bytes that are wrong" unless answer == words
      end
    end

    # The app waits for a word, or for room.
    def leaves_conversing(client)
      client.write(head("/converse"))
      client.write_what_goes(@random.bytes(@random.rand(0..100_000)))
      sleep(@random.rand(0.0..0.1))
      client.reset if @random.rand(2).zero?
    end

    def posts(client)
      body = content
      client.write("POST /digest HTTP/1.1\r\nHost: a.test\r\nContent-Length: #{body.bytesize}\r\n\r\n").write(body)
      expect(client.read, 200, Digest::SHA256.hexdigest(body))
    end

    def posts_chunked(client)
      body = content
      client.write("POST /digest HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n")
      body.scan(/.{1,4096}/mn) { |piece| client.write("#{piece.bytesize.to_s(16)}\r\n#{piece}\r\n") }
      expect(client.write("0\r\n\r\n").read, 200, Digest::SHA256.hexdigest(body))
    end

    def slow_reader(client)
      client.write(head("/large"))
      5.times { client.read_some(1000) && sleep(0.1) }
    end

    def leaves_waiting(client)
      client.write(head("/long"))
      sleep(@random.rand(0.0..0.3))
      client.reset
    end

    # The answer is on its way, or an exception.
    def leaves_at_the_end(client)
      client.write(head("/edge"))
      sleep(@random.rand(0.015..0.025))
      client.reset
    end

    def leaves_uploading(client)
      client.write("POST /digest HTTP/1.1\r\nHost: a.test\r\nContent-Length: 100000\r\n\r\n").write("z" * 5000)
      client.reset
    end

    def leaves_downloading(client)
      client.write(head("/large")).read_some(1000)
      client.reset
    end

    def malformed(client) = expect(client.write("GET / HTTP/1.1\r\nHost : a.test\r\n\r\n").read, 400)

    # The server waits for the rest until its patience ends.
    def half_a_head(client) = expect(client.write("GET /hello HTTP/1.1\r\nHo").read, 408)

    private

    def content = @random.bytes(@random.rand(1..150_000))
    def head(path) = "GET #{path} HTTP/1.1\r\nHost: a.test\r\n\r\n"
    def ask(client, path) = client.call(head(path))

    def expect(response, *wanted)
      statuses, bodies = wanted.partition { |value| value.is_a?(Integer) }
      raise Wrong, "status #{response.status}" unless statuses.include?(response.status)
      raise Wrong, "#{response.body.bytesize} bytes that are wrong" unless bodies.all?(response.body)
    end
  end
end
