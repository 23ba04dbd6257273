# frozen_string_literal: true

module Bench
  # What a client does to a server: how many connections, with which fields, how many requests in one write, how large
  # the answers are, and the protocol: :http1, :h2c (HTTP/2 without TLS), :https (HTTP/1.1 in TLS) or :h2 (HTTP/2 in
  # TLS). With TLS the server has a certificate with a key of this kind; `handshakes`: the client does nothing else.
  Load = Struct.new(:name, :title, :connections, :headers, :depth, :body_size, :protocol, :key, :handshakes,
                    keyword_init: true) do
    def initialize(headers: [], depth: 1, body_size: 12, protocol: :http1, **rest)
      rest[:key] ||= :ecdsa if %i[https h2].include?(protocol)
      super
    end

    # What a server must be started for.
    def setting = [body_size, protocol, key]

    # What its `command` takes beside port and size.
    def terms = protocol == :http1 ? {} : { protocol: protocol, pair: key && Certificate.pair(key) }.compact

    def tls? = !key.nil?
    def http2? = %i[h2c h2].include?(protocol)

    # @return [String] of an answer
    def body = body_size == 12 ? "Hello World\n" : "x" * body_size

    # @return [Boolean] whether the server answers, and with that body
    def right?(port)
      (http2? ? H2load.get(port: port, tls: tls?) : Probe.get(port: port, seconds: 1, tls: tls?)&.body) == body
    end

    # @return [Symbol]
    def client
      return :handshakes if handshakes

      http2? ? :h2load : :wrk
    end
  end

  # The loads of `bin/bench servers`, in the order of the columns.
  module Loads
    # What a browser sends beside Host: eight more fields, about 480 bytes in all.
    BROWSER = [
      "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
      "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
      "Accept-Language: en-US,en;q=0.5",
      "Accept-Encoding: gzip, deflate, br",
      "Cookie: session=4f9c2a7e81b34d06a5e2; theme=dark; consent=yes",
      "Upgrade-Insecure-Requests: 1",
      "Sec-Fetch-Mode: navigate",
      "Priority: u=0, i"
    ].freeze

    ALL = [
      Load.new(name: "ka4", title: "keep-alive c4", connections: 4),
      Load.new(name: "ka64", title: "keep-alive c64", connections: 64),
      Load.new(name: "ka256", title: "keep-alive c256", connections: 256),
      Load.new(name: "close64", title: "close c64", connections: 64, headers: ["Connection: close"]),
      Load.new(name: "browser64", title: "9 fields c64", connections: 64, headers: BROWSER),
      Load.new(name: "pipe16", title: "pipeline 16x16", connections: 16, depth: 16),
      Load.new(name: "body16k", title: "16 KB c64", connections: 64, body_size: 16 * 1024),
      Load.new(name: "body256k", title: "256 KB c64", connections: 64, body_size: 256 * 1024),
      Load.new(name: "h2c1", title: "h2c 1x32", connections: 1, protocol: :h2c),
      Load.new(name: "h2c10", title: "h2c 10x32", connections: 10, protocol: :h2c),
      Load.new(name: "h2c1_256k", title: "h2c 1x32, 256 KB", connections: 1, body_size: 256 * 1024, protocol: :h2c),
      Load.new(name: "h2c10_256k", title: "h2c 10x32, 256 KB", connections: 10, body_size: 256 * 1024, protocol: :h2c),
      Load.new(name: "tls64", title: "TLS c64", connections: 64, protocol: :https),
      Load.new(name: "h2_1", title: "h2 1x32", connections: 1, protocol: :h2),
      Load.new(name: "h2_10", title: "h2 10x32", connections: 10, protocol: :h2),
      Load.new(name: "h2_1_256k", title: "h2 1x32, 256 KB", connections: 1, body_size: 256 * 1024, protocol: :h2),
      Load.new(name: "h2_10_256k", title: "h2 10x32, 256 KB", connections: 10, body_size: 256 * 1024, protocol: :h2),
      Load.new(name: "ecdsa", title: "handshakes ECDSA", connections: 16, protocol: :https, handshakes: true),
      Load.new(name: "rsa", title: "handshakes RSA", connections: 16, protocol: :https, key: :rsa, handshakes: true)
    ].freeze

    module_function

    # See Bench.pick.
    def pick(names) = Bench.pick(ALL, names, "load")

    CLIENTS = { wrk: Wrk, h2load: H2load, handshakes: Handshakes }.freeze

    # @param loads [Array<Load>]
    # @param cpu [Integer, nil] the CPU to pin them to
    # @return [Hash{Symbol => #run}] what the loads name as `client`
    # @raise [Unavailable] before anything is measured
    def clients(loads, cpu: nil) = CLIENTS.slice(*loads.map(&:client)).transform_values { |kind| kind.new(cpu: cpu) }
  end
end
