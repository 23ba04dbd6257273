# frozen_string_literal: true

require "openssl"
require_relative "wire"

# Wire::Client through TLS, by Ruby's own library.
class TLSClient < Wire::Client
  # What an SSLSocket leaves to the socket below.
  class Secure < OpenSSL::SSL::SSLSocket
    def wait_readable(seconds) = pending.positive? || io.wait_readable(seconds)
    def wait_writable(seconds) = io.wait_writable(seconds)
    def close_write = io.close_write
  end

  # host: that is asked for, nil for none; ca: an X509::Certificate that the server's is verified with, nil: no check;
  # alpn: names; session: of an earlier connection; pair: of Certificates, for the client; before: bytes in clear
  USUAL = { host: "a.test", ca: nil, alpn: nil, session: nil, pair: nil, before: nil, timeout: 20 }.freeze

  # port: of the server; options: as USUAL; block: gets the SSLContext.
  def initialize(port, **options)
    options = USUAL.merge(options)
    super(port, timeout: options[:timeout])
    @plain = @socket
    @socket.write(options[:before]) if options[:before]
    context = context_of(options)
    yield context if block_given?
    shake_hands(context, options)
  rescue StandardError
    @plain&.close
    raise
  end

  # The session that the server gave last, for another client; nil before it came.
  attr_reader :session

  # The certificate of the server.
  def certificate = @socket.peer_cert

  # What was chosen.
  def version = @socket.ssl_version
  def protocol = @socket.alpn_protocol
  def resumed? = @socket.session_reused?

  private

  def context_of(options)
    OpenSSL::SSL::SSLContext.new.tap do |context|
      context.verify_mode = options[:ca] ? OpenSSL::SSL::VERIFY_PEER : OpenSSL::SSL::VERIFY_NONE
      context.cert_store = OpenSSL::X509::Store.new.tap { |store| store.add_cert(options[:ca]) } if options[:ca]
      context.alpn_protocols = options[:alpn] if options[:alpn]
      context.cert, context.key = *options[:pair].to_h.values_at(:cert, :key)
      context.session_cache_mode = OpenSSL::SSL::SSLContext::SESSION_CACHE_CLIENT
      context.session_new_cb = ->((_, session)) { @session = session }
    end
  end

  def shake_hands(context, options)
    @socket = Secure.new(@plain, context)
    @socket.sync_close = true
    @socket.hostname = options[:host] if options[:host]
    # A copy: OpenSSL takes one out of use when the server has given the next.
    @socket.session = OpenSSL::SSL::Session.new(options[:session].to_der) if options[:session]
    deadline = now + options[:timeout]
    until @socket.equal?(result = @socket.connect_nonblock(exception: false))
      left = deadline - now
      done = result == :wait_writable ? @plain.wait_writable(left) : @plain.wait_readable(left) if left.positive?
      raise Wire::Late, "the handshake does not end" unless done
    end
    @socket.post_connection_check(options[:host]) if options[:ca] && options[:host]
  end
end
