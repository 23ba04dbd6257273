# frozen_string_literal: true

require "digest"
require "rack/request"
require "securerandom"

module Abaca
  class Web
    # Who looks at the dashboard within an app: what the request says, and whether a page of this app has made it.
    class Visitor
      COOKIE = "abaca_web"
      SECRET = /\A\h{64}\z/
      private_constant :COOKIE, :SECRET

      # @param env [Hash] Rack's
      def initialize(env)
        @env = env
        @request = ::Rack::Request.new(env)
      end

      # @return [String] where the dashboard is mounted, with a slash at its end
      def base = "#{@env['SCRIPT_NAME']}/"

      # @param name [String]
      # @return [String, nil] of the query; nil also for what is malformed
      def parameter(name)
        value = @request.GET[name]
        value if value.is_a?(String)
      rescue StandardError
        nil
      end

      # @return [String] what the page shows that it was made for this browser: other sites cannot read it
      def token = token_of(secret)

      # @return [Hash{String => String}] the field that lets the browser keep what the token is made of
      def cookie
        { "set-cookie" => "#{COOKIE}=#{secret}; Path=#{base}; HttpOnly; SameSite=Strict#{'; Secure' if @request.ssl?}" }
      end

      # @return [Boolean] whether this app's own page has asked for an act
      def meant?
        sent = kept or return false
        return false unless same_site?

        Digest::SHA256.digest(token_of(sent)) == Digest::SHA256.digest(@env["HTTP_X_ABACA_TOKEN"].to_s)
      end

      private

      def kept = @request.cookies[COOKIE]&.slice(SECRET)

      def secret = @secret ||= kept || SecureRandom.hex(32)

      def token_of(secret) = Digest::SHA256.hexdigest("page of #{secret}")

      # Browsers say where a request comes from.
      def same_site?
        site, origin = @env.values_at("HTTP_SEC_FETCH_SITE", "HTTP_ORIGIN")
        return false unless [nil, "same-origin"].include?(site)

        origin.nil? ? site == "same-origin" : origin == @request.base_url
      end
    end
  end
end
