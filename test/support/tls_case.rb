# frozen_string_literal: true

require "tmpdir"
require_relative "certificates"
require_relative "http2_client"
require_relative "server_case"
require_relative "tls_client"

# For tests of a server in this process that speaks TLS, with certificates of the test's own.
module TLSCase
  include ServerCase

  # Answers with what the block makes of the env.
  def self.telling(&block) = ->(env) { [200, { "content-type" => "text/plain" }, [block.call(env).inspect]] }

  def setup
    skip "this build has no TLS" unless Abaca::TLS_LIBRARY
    super
    @folder = Dir.mktmpdir("abaca")
    @made = Certificates.new(@folder)
    @pair = @made.make("a", names: ["a.test", "*.a.test"])
  end

  def teardown
    super if @before
  ensure
    FileUtils.rm_rf(@folder) if @folder
  end

  # Starts a server around the app, with one more listener that speaks TLS; returns it and that port. tls: for
  # Server#add_ssl_listener.
  def serve_tls(app = nil, tls: @pair.files, **options, &block)
    running = serve(app, **options, &block)
    [running, listen(running, **tls)]
  end

  # Another listener.
  def listen(running, *context, **options)
    running.server.add_ssl_listener("127.0.0.1", 0, *context, defer_accept: false, **options)
  end

  # A client with TLS, closed at the end of the test.
  def secure(port, **options, &block)
    options = { ca: @made.authority.cert }.merge(options)
    TLSClient.new(port, **options, &block).tap { |client| @clients << client }
  end

  # The same of HTTP/2. options: of the Http2Client.
  def secure_http2(port, **options)
    skip "this build has no HTTP/2" unless Abaca::HTTP2_LIBRARY
    through = ->(socket) { TLSClient::Secure.over(socket, ca: @made.authority.cert, alpn: ["h2"]) }
    Http2Client.new(port, through: through, **options).tap { |client| @clients << client }
  end

  # What a client is told by the app.
  def told(client) = client.call(ServerCase::GET).body
end
