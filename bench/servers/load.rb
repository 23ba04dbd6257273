# frozen_string_literal: true

module Bench
  # What a client does to a server: how many connections, with which fields, how many requests in one
  # write, how large the answers are, and the protocol (:http1, or :h2c: HTTP/2 without TLS).
  Load = Struct.new(:name, :title, :connections, :headers, :depth, :body_size, :protocol, keyword_init: true) do
    def initialize(headers: [], depth: 1, body_size: 12, protocol: :http1, **rest) = super
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
      Load.new(name: "h2c10_256k", title: "h2c 10x32, 256 KB", connections: 10, body_size: 256 * 1024, protocol: :h2c)
    ].freeze

    module_function

    # See Bench.pick.
    def pick(names) = Bench.pick(ALL, names, "load")
  end
end
