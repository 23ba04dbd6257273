# frozen_string_literal: true

require "openssl"
require_relative "../support/cut_socket"
require_relative "../support/tls_client"

module Soak
  # What a client does about TLS itself, on the port that speaks it. Requests through TLS are those of Actions and
  # Streams.
  module Handshakes
    # name => shares, as in Actions.
    SHARES = {
      leaves_in_a_handshake: 6, breaks_a_handshake: 3, speaks_no_protocol: 2, speaks_in_clear: 2
    }.freeze
    # Of a hundred connections through TLS: those whose bytes go in pieces, and those that resume an earlier session.
    CUT = 15
    RESUMED = 50

    # Anywhere in the ClientHello, or behind it, while the server computes or says its part.
    def leaves_in_a_handshake
      raw do |client|
        client.write(part_of_a_hello)
        sleep(@random.rand(0.0..0.05))
        client.reset if @random.rand(2).zero?
      end
    end

    # The server says nothing but an alert, and closes.
    def breaks_a_handshake
      raw do |client|
        client.write(part_of_a_hello + @random.bytes(@random.rand(1..20_000)))
        client.half_close.drain
      rescue Errno::EPIPE, Errno::ECONNRESET
        nil # it did not wait for all of that
      end
    end

    def speaks_no_protocol
      speak_tls(Socket.tcp("127.0.0.1", @places.secure), alpn: "spdy/3").close
      raise Actions::Wrong, "a protocol that the server does not know"
    rescue OpenSSL::SSL::SSLError => e
      raise Actions::Wrong, e.message unless e.message.include?("no application protocol")
    end

    def speaks_in_clear
      raw { |client| expect(client.call(head("/hello")), 400, "400 Bad Request: use https for this port.\n") }
    end

    private

    # A client of HTTP/1.1 through TLS.
    def secure_client
      TLSClient.new(@places.secure, through: method(:cut), **usual)
    end

    # Shakes hands over a connected socket.
    def speak_tls(socket, alpn:)
      TLSClient::Secure.over(cut(socket), on_session: ->(session) { @session = session }, alpn: [alpn], **usual)
    end

    # A client of HTTP/2, which sends the words at once.
    def open_http2(words)
      return Http2Client.new(@places.plain, before: words) unless @secure

      Http2Client.new(@places.secure, before: words, through: ->(socket) { speak_tls(socket, alpn: "h2") })
    end

    def usual
      { ca: @places.authority, timeout: @patience, session: (@session if @random.rand(100) < RESUMED) }
    end

    def cut(socket) = @random.rand(100) < CUT ? CutSocket.over(socket, @random.rand(20..2000)) : socket

    def raw
      client = Wire::Client.new(@places.secure, timeout: @patience)
      yield client
    ensure
      client&.close
    end

    # Half of the time all of it.
    def part_of_a_hello = hello[0, [@random.rand(1..(2 * hello.bytesize)), hello.bytesize].min]

    # The first bytes of a client. The server answers them as often as they come.
    def hello
      @hello ||= begin
        ours, theirs = UNIXSocket.pair
        OpenSSL::SSL::SSLSocket.new(ours, OpenSSL::SSL::SSLContext.new).connect_nonblock(exception: false)
        theirs.readpartial(65_536)
      ensure
        [ours, theirs].each(&:close)
      end
    end
  end
end
