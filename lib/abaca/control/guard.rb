# frozen_string_literal: true

require "digest"
require "ipaddr"
require "securerandom"
require_relative "../errors"
require_relative "sessions"

module Abaca
  class Control
    # Who may use a control server: whoever has a token, which says how much he may, or a browser's cookie, which allows
    # to look, and with the secret of its link to act; and on top of it
    #
    # - on a unix socket that is its owner's alone, the server's own user and root;
    # - on a loopback address, no web page: neither by a name that its owner points here (DNS rebinding), nor as a
    #   request to another site.
    class Guard
      # Asks for no token.
      NO_TOKEN = "none"

      # @return [String, nil] that which allows everything; nil: none is needed
      attr_reader :token
      # @return [Sessions] of browsers
      attr_reader :sessions

      # @param address [Address]
      # @param token [String, nil] nil or "": one is made up; "none": none is needed
      # @param others [Hash{Symbol => String, nil}] tokens that allow less, by level: `operate`, `read`
      # @param sessions [Sessions, nil] of browsers; nil: new ones
      # @raise [ConfigError] if everybody who reaches the address could stop the server, or a token has two levels
      def initialize(address, token, others = {}, sessions: nil)
        @address = address
        @token = token.to_s.empty? ? SecureRandom.hex(16) : token
        @tokens = { admin: @token, **others }.compact
        # Ports share the cookies of their host.
        @sessions = sessions || Sessions.new("abaca_control_#{SecureRandom.hex(4)}")
        check
        @token = nil if @token == NO_TOKEN
      end

      # @param request [Request]
      # @param socket [BasicSocket] that it came on
      # @param query [Boolean] whether the token may stand in the query, as Puma's does
      # @param open [Boolean] whether it needs no token
      # @return [String, nil] why it is refused
      def refusal(request, socket, query:, open: false)
        return "Not a user of this server" unless user?(socket)
        return "Not a host of this server: #{request['host']}" unless host?(request["host"])
        return "Not for web pages" if page?(request)

        "Invalid auth token" unless open || level(request, query:)
      end

      # @param request [Request]
      # @param query [Boolean] as for #refusal
      # @return [Symbol, nil] what its token or cookie allows
      def level(request, query:)
        return :admin unless @token

        by_token(request, query) || @sessions.level(request["cookie"])
      end

      # @return [Boolean] whether every act has to be posted: any web page can have a browser send a GET to a port, and
      #   without a token it would count
      def post_only? = @token.nil? && !@address.port.nil?

      # A browser sends its cookie to each port of the host, and whoever has made the request. So acts need POST, of
      # which it says where it comes from, and the secret of the link, which only the tab has that has followed it.
      #
      # @param request [Request]
      # @param query [Boolean] as for #refusal
      # @return [Boolean] whether an act is really meant
      def meant?(request, query:)
        return true if @token.nil? || by_token(request, query)

        return false unless request.verb == "POST"
        return false unless !request["origin"].nil? || request["sec-fetch-site"] == "same-origin"

        @sessions.acts?(request["cookie"], request["x-abaca-token"])
      end

      private

      def check
        if @token == NO_TOKEN
          refuse("a token is needed where other machines can connect") unless @address.local?
          refuse("no token, and tokens that allow less, exclude each other") if @tokens.size > 1
        end
        refuse("two of its tokens are the same") unless @tokens.values.uniq.size == @tokens.size
        refuse("a token is empty") if @tokens.value?("")
      end

      def refuse(why) = raise(ConfigError, "control server on #{@address}: #{why}")

      def user?(socket)
        return true unless @address.private?

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

      # How long it takes tells nothing of the tokens: all are compared, as digests.
      def by_token(request, query)
        given = [request["authorization"].to_s[/\ABearer +(\S+)\z/i, 1]]
        given.concat(request.parameters("token")) if query
        given = given.compact.map { |text| Digest::SHA256.digest(text) }
        found = @tokens.select { |_, token| given.count(Digest::SHA256.digest(token)).positive? }
        found.keys.first
      end
    end
  end
end
