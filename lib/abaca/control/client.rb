# frozen_string_literal: true

require "io/wait"
require "socket"
require "uri"
require_relative "address"

module Abaca
  class Control
    # Asks a control server, Abaca's or Puma's.
    class Client
      # Seconds to connect, and for the whole answer.
      CONNECT = 5
      ANSWER = 60
      private_constant :CONNECT, :ANSWER

      # There is no answer.
      class Failed < StandardError; end

      # An answer: its status, and its body.
      Reply = Struct.new(:status, :body)

      # @param url [String]
      # @raise [ConfigError] when it is not one of a control server
      def initialize(url)
        @address = Address.parse(url)
        raise ConfigError, "control URL auto: its socket has another name; use the state file" if @address.auto?
      end

      # @yield with a connection, which is closed afterwards
      # @raise [Failed] if nobody listens there
      def connect
        socket = @address.path ? unix : Socket.tcp(@address.host, @address.port, connect_timeout: CONNECT)
        yield socket
      rescue SystemCallError, SocketError, IOError => e
        raise Failed, "no control server on #{@address}: #{e.message}"
      ensure
        socket&.close
      end

      # @param command [String]
      # @param token [String, nil]
      # @param query [Boolean] whether the token stands in the query, as Puma's has to
      # @return [Reply]
      # @raise [Failed] if nobody listens there, or the answer does not come
      def ask(command, token: nil, query: true)
        target = "/#{command}"
        target += "?token=#{URI.encode_www_form_component(token)}" if token && query
        field = "Authorization: Bearer #{token}\r\n" if token && !query
        connect do |socket|
          socket.write("GET #{target} HTTP/1.0\r\n#{field}\r\n")
          reply(read(socket))
        end
      end

      private

      # A path of 108 bytes or more is no path of a socket.
      def unix
        path = @address.path
        UNIXSocket.new(@address.abstract? ? "\0#{path.delete_prefix('@')}" : path)
      rescue ArgumentError => e
        raise Failed, "no control server on #{@address}: #{e.message}"
      end

      def read(socket)
        deadline = now + ANSWER
        text = +"".b
        while (piece = socket.read_nonblock(65_536, exception: false))
          next text << piece unless piece == :wait_readable

          left = deadline - now
          raise Failed, "no answer within #{ANSWER} s" unless left.positive? && socket.wait_readable(left)
        end
        text
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def reply(text)
        head, body = text.split("\r\n\r\n", 2)
        status = head.to_s[%r{\AHTTP/1\.\d (\d{3})}, 1] or raise Failed, "the server closed the connection"
        Reply.new(status.to_i, body.to_s.force_encoding(Encoding::UTF_8).scrub("?"))
      end
    end
  end
end
