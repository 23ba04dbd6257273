# frozen_string_literal: true

require "io/wait"
require "uri"

module Abaca
  class Control
    # One request to the control server: a head without a body, which comes within seconds. What is not plainly that is
    # refused. A connection carries one request, so nothing can hide behind it.
    class Request
      # Bytes of a head, and seconds for it.
      MOST = 8192
      SECONDS = 5
      LINE = %r{\A(?<verb>GET|HEAD|POST) (?<path>/[!-~&&[^?#]]*)(?:\?(?<query>[!-~&&[^#]]*))? HTTP/1\.[01]\z}
      FIELD = /\A(?<name>[\w!#$%&'*+.^`|~-]+):[ \t]*(?<value>[\x20-\x7e\t]*?)[ \t]*\z/
      private_constant :LINE, :FIELD

      # A request that is not answered as one: its status and why.
      class Invalid < StandardError
        # @return [Integer] the status of the answer
        attr_reader :status

        def initialize(status, text)
          @status = status
          super(text)
        end
      end

      # One that ends before it is complete.
      class Half < Invalid
        def initialize = super(400, "Half a request")
      end

      # @return [String] GET, HEAD or POST
      attr_reader :verb
      # @return [String] without the query
      attr_reader :path

      # @param socket [BasicSocket]
      # @return [Request, nil] nil if nothing came
      # @raise [Invalid]
      def self.read(socket)
        head = +"".b
        deadline = now + SECONDS
        until (length = head.index("\r\n\r\n"))
          raise Invalid.new(431, "The head is too long") if head.bytesize > MOST

          piece = receive(socket, deadline) or return (head.empty? ? nil : raise(Half))
          head << piece
        end
        new(head.byteslice(0, length))
      end

      def self.receive(socket, deadline)
        loop do
          piece = socket.read_nonblock(MOST, exception: false)
          return piece unless piece == :wait_readable

          left = deadline - now
          raise Invalid.new(408, "The request took too long") unless left.positive? && socket.wait_readable(left)
        end
      end

      def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      private_class_method :receive, :now

      # @param head [String] without the empty line at its end
      # @raise [Invalid]
      def initialize(head)
        line, *fields = head.split("\r\n", -1)
        match = LINE.match(line) or raise Invalid.new(400, "Not a request for a command")
        @verb, @path, @query = match.values_at(:verb, :path, :query)
        @fields = {}
        fields.each { |field| add(field) }
        raise Invalid.new(413, "No command has a body") if body?
      end

      # @param name [String] in lower case
      # @return [String, nil] a header field's value
      def [](name) = @fields[name]

      # @return [Array<String>] the values of this name in the query, as sent and decoded
      def parameters(name)
        pairs.select { |key, value| key == name && value }.flat_map { |_, value| [value, decode(value)] }
      end

      # @return [Hash{String => String}] the names and values of the query, decoded; the last one of a name counts
      def query = pairs.to_h { |key, value| [key, decode(value.to_s)] }

      # @param name [String]
      # @return [String, nil] the value of this name in the query, decoded
      def parameter(name) = parameters(name).last

      # @param type [String] a media type
      # @return [Boolean] whether the client names it before JSON
      def prefers?(type)
        named = self["accept"].to_s.downcase.split(",").map { |one| one.split(";").first.to_s.strip }
        named.find { |one| [type, "application/json"].include?(one) } == type
      end

      private

      def add(field)
        match = FIELD.match(field) or raise Invalid.new(400, "A header field is malformed")
        name = match[:name].downcase
        raise Invalid.new(400, "Two fields #{name}") if @fields.key?(name) && %w[host authorization].include?(name)

        @fields[name] = match[:value]
      end

      def pairs = @query.to_s.split(/[&;]/).reject(&:empty?).map { |pair| pair.split("=", 2) }

      def body?
        @fields.key?("transfer-encoding") || !["0", nil].include?(@fields["content-length"])
      end

      def decode(value)
        URI.decode_www_form_component(value)
      rescue ArgumentError
        value
      end
    end
  end
end
