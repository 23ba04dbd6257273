# frozen_string_literal: true

require "digest"
require "ipaddr"
require "securerandom"

module Abaca
  class Control
    # Who may use a control server: whoever has the token, and on top of it
    #
    # - on an abstract unix socket, which has no permissions, the server's own user and root;
    # - on a loopback address, no web page: neither by a name that its owner points here (DNS rebinding), nor as a
    #   request to another site.
    class Guard
      # Asks for no token.
      NO_TOKEN = "none"

      # @return [String, nil] nil: none is needed
      attr_reader :token

      # @param address [Address]
      # @param token [String, nil] nil or "": one is made up; "none": none is needed
      # @raise [ConfigError] if everybody who reaches the address could stop the server
      def initialize(address, token)
        @address = address
        @token = token.to_s.empty? ? SecureRandom.hex(16) : token
        return unless @token == NO_TOKEN

        @token = nil
        return if address.local?

        raise ConfigError, "control server on #{address}: a token is needed where other machines can connect"
      end

      # @param request [Request]
      # @param socket [BasicSocket] that it came on
      # @param query [Boolean] whether the token may stand in the query, as Puma's does
      # @return [String, nil] why it is refused
      def refusal(request, socket, query:)
        return "Not a user of this server" unless user?(socket)
        return "Not a host of this server: #{request['host']}" unless host?(request["host"])
        return "Not for web pages" if page?(request)

        "Invalid auth token" unless token?(request, query)
      end

      private

      def user?(socket)
        return true unless @address.abstract?

        [0, Process.euid].include?(socket.getpeereid.first)
      rescue SystemCallError
        false # gone
      end

      # A name leads where its owner wants, an address does not.
      def host?(field)
        return true if field.nil? || field.empty? || @address.host.nil? || !@address.local?

        host = field[/\A\[([^\]]*)\](?::\d*)?\z/, 1] || field[/\A[^:]*/]
        host == @address.host || host == "localhost" || !IPAddr.new(host).nil?
      rescue IPAddr::Error
        false
      end

      # Browsers say where a request comes from.
      def page?(request)
        site = request["sec-fetch-site"]
        return true unless [nil, "none", "same-origin"].include?(site)

        origin = request["origin"]
        !origin.nil? && origin.delete_prefix("http://") != request["host"]
      end

      # How long it takes tells nothing of the token.
      def same?(text) = Digest::SHA256.digest(text) == Digest::SHA256.digest(@token)

      def token?(request, query)
        return true unless @token

        given = [request["authorization"].to_s[/\ABearer +(\S+)\z/i, 1]]
        given.concat(request.parameters("token")) if query
        given.compact.any? { |text| same?(text) }
      end
    end
  end
end
