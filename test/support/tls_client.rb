# frozen_string_literal: true

require "openssl"
require_relative "waits"
require_relative "wire"

# Wire::Client through TLS, by Ruby's own library.
class TLSClient < Wire::Client
  # host: that is asked for, nil for none; ca: an X509::Certificate that the server's is verified with, nil: no check;
  # alpn: names; session: of an earlier connection; pair: of Certificates, for the client; before: bytes in clear
  USUAL = { host: "a.test", ca: nil, alpn: nil, session: nil, pair: nil, before: nil, timeout: 60 }.freeze

  # What an SSLSocket leaves to the socket below.
  class Secure < OpenSSL::SSL::SSLSocket
    # Shakes hands over a connected socket, which is closed when that fails. options: as USUAL; on_session: is called
    # with each session that the server gives; block: gets the SSLContext.
    def self.over(plain, on_session: nil, **options)
      options = USUAL.merge(options)
      plain.write(options[:before]) if options[:before]
      context = context_of(options, on_session)
      yield context if block_given?
      new(plain, context).tap { |socket| socket.shake_hands(options) }
    rescue StandardError
      plain.close
      raise
    end

    def self.context_of(options, on_session)
      OpenSSL::SSL::SSLContext.new.tap do |context|
        context.verify_mode = options[:ca] ? OpenSSL::SSL::VERIFY_PEER : OpenSSL::SSL::VERIFY_NONE
        context.cert_store = OpenSSL::X509::Store.new.tap { |store| store.add_cert(options[:ca]) } if options[:ca]
        context.alpn_protocols = options[:alpn] if options[:alpn]
        context.cert, context.key = *options[:pair].to_h.values_at(:cert, :key)
        context.session_cache_mode = OpenSSL::SSL::SSLContext::SESSION_CACHE_CLIENT
        context.session_new_cb = ->((_, session)) { on_session&.call(session) }
      end
    end
    private_class_method :context_of

    def initialize(...)
      @turn = Mutex.new
      super
    end

    def shake_hands(options)
      self.sync_close = true
      self.hostname = options[:host] if options[:host]
      # A copy: OpenSSL takes one out of use when the server has given the next.
      self.session = OpenSSL::SSL::Session.new(options[:session].to_der) if options[:session]
      deadline = Waits.now + options[:timeout]
      until equal?(result = connect_nonblock(exception: false))
        left = deadline - Waits.now
        done = result == :wait_writable ? io.wait_writable(left) : io.wait_readable(left) if left.positive?
        raise Wire::Late, "the handshake does not end" unless done
      end
      post_connection_check(options[:host]) if options[:ca] && options[:host]
    end

    def wait_readable(seconds) = pending.positive? || io.wait_readable(seconds)
    def wait_writable(seconds) = io.wait_writable(seconds)
    def wait(seconds, mode) = pending.positive? || io.wait(seconds, mode)

    # A call that finds a session calls Ruby, which may change threads: a call of another thread would then find
    # OpenSSL in the middle of one, and what it writes would be lost.
    def read_nonblock(...) = @turn.synchronize { super }

    # Ruby's library does not always tell that the peer has gone.
    def write_nonblock(...)
      @turn.synchronize { super }
    rescue OpenSSL::SSL::SSLError => e
      raise unless e.message == "SSL_write"

      raise Errno::EPIPE
    end

    # Without a word in TLS.
    def close_write = io.close_write

    # The same with close_notify before.
    def end_write
      stop
      io.close_write
    end
  end

  # port: of the server; options: as USUAL, and receive_buffer; through: what stands between TLS and the socket, which
  # it is called with; block: gets the SSLContext.
  def initialize(port, through: nil, **options, &block)
    super(port, **options.slice(:timeout, :receive_buffer))
    @socket = through.call(@socket) if through
    @socket = Secure.over(@socket, on_session: ->(session) { @session = session }, **options, &block)
  end

  # A ticket of the server's, which comes behind the handshake, does not count.
  def silent?(seconds)
    deadline = now + seconds
    while @parser.pending.zero? && !@ended && @socket.read_nonblock(1, exception: false) == :wait_readable
      left = deadline - now
      return true if left <= 0

      @socket.io.wait_readable(left)
    end
    false
  end

  # Ends the connection with RST.
  def reset
    @socket.io.setsockopt(Socket::Option.linger(true, 0))
    @socket.io.close
  end

  # The session that the server gave last, for another client; nil before it came.
  attr_reader :session

  # The certificate of the server.
  def certificate = @socket.peer_cert

  # What was chosen.
  def version = @socket.ssl_version
  def protocol = @socket.alpn_protocol
  def resumed? = @socket.session_reused?
end
