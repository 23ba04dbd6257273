# frozen_string_literal: true

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

      # An answer: its status, its body, and its header fields by their names in lower case.
      Reply = Struct.new(:status, :body, :fields)

      # @param url [String]
      # @raise [ConfigError] when it is not one of a control server
      def initialize(url)
        @address = Address.parse(url)
        raise ConfigError, "control URL auto: its socket has another name; use the state file" if @address.auto?
      end

      # @yield with a connection, which is closed afterwards
      # @raise [Failed] if nobody listens there
      def connect
        require "io/wait" # a look at a page alone does without them
        require "socket"
        socket = @address.path ? unix : Socket.tcp(@address.host, @address.port, connect_timeout: CONNECT)
        yield socket
      rescue SystemCallError, SocketError, IOError => e
        raise Failed, "no control server on #{@address}: #{e.message}"
      ensure
        socket&.close
      end

      # Asks as Puma's clients do, with the token in the query.
      #
      # @param command [String]
      # @param verb [String] POST for an act: without a token, a port takes no other
      # @param token [String, nil]
      # @return [Reply]
      # @raise [Failed] if nobody listens there, or the answer does not come
      def ask(command, verb: "GET", token: nil)
        require "uri"
        query = "?token=#{URI.encode_www_form_component(token)}" if token
        exchange("#{verb} /#{command}#{query} HTTP/1.0\r\n\r\n")
      end

      # Asks for what Puma does not have.
      #
      # @param verb [String] GET or POST
      # @param target [String] a path, perhaps with a query
      # @param token [String, nil]
      # @param accept [String, nil] a media type
      # @param within [Numeric] seconds for the whole answer
      # @return [Reply]
      # @raise [Failed] as #ask
      def call(verb, target, token: nil, accept: nil, within: ANSWER)
        fields = { "Authorization" => token && "Bearer #{token}", "Accept" => accept }.compact
        head = fields.map { |name, value| "#{name}: #{value}\r\n" }.join
        exchange("#{verb} #{target} HTTP/1.0\r\n#{head}\r\n", within)
      end

      # @param path [String]
      # @return [String, nil] it as a browser takes it; nil if the server has no port
      def link(path) = @address.port && "#{@address.to_s.sub(/\Atcp:/, 'http:')}#{path}"

      private

      def exchange(text, within = ANSWER)
        connect do |socket|
          socket.write(text)
          reply(read(socket, within))
        end
      end

      # A path of 108 bytes or more is no path of a socket.
      def unix
        path = @address.path
        UNIXSocket.new(@address.abstract? ? "\0#{path.delete_prefix('@')}" : path)
      rescue ArgumentError => e
        raise Failed, "no control server on #{@address}: #{e.message}"
      end

      def read(socket, within)
        deadline = now + within
        text = +"".b
        while (piece = socket.read_nonblock(65_536, exception: false))
          next text << piece unless piece == :wait_readable

          left = deadline - now
          raise Failed, "no answer within #{within} s" unless left.positive? && socket.wait_readable(left)
        end
        text
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def reply(text)
        head, body = text.split("\r\n\r\n", 2)
        status = head.to_s[%r{\AHTTP/1\.\d (\d{3})}, 1] or raise Failed, "the server closed the connection"
        fields = head.scan(/^([\w-]+): *([^\r\n]*)/).to_h { |name, value| [name.downcase, value] }
        Reply.new(status.to_i, body.to_s.force_encoding(Encoding::UTF_8).scrub("?"), fields)
      end
    end
  end
end
