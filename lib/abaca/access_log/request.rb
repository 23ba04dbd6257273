# frozen_string_literal: true

module Abaca
  class AccessLog
    # What is known of a request when its response is done. Text is as the client or the app has sent it: a line that
    # is made from it is made safe when it is logged.
    class Request
      # Of version 0, and of those that will begin like it (W3C Trace Context).
      TRACE = /\A(?!ff)\h\h-(?!0{32})(\h{32})-\h{16}-\h\h(?:\z|-)/
      private_constant :TRACE

      # @return [Hash] the request's env, as the app has left it
      attr_reader :env
      # @return [Integer, nil] nil if the app has taken over the connection
      attr_reader :status
      # @return [Integer] bytes of the response's content
      attr_reader :bytes
      # @return [Float] seconds from the call of the app to the end of the response
      attr_reader :seconds
      # @return [Hash] the headers of the app's response; empty if it has raised
      attr_reader :headers

      # @return [Symbol] how it has ended: `:done`, its response is complete; or by whom: `:client`, `:deadline`,
      #   `:shutdown`, `:operator`, `:app`
      attr_reader :ending
      # @return [Hash{Symbol => Float}, nil] seconds in each state that it was in (docs/sight.md); nil if the server has
      #   no page, and in formats of the server's other than JSON for what was neither slow nor failed
      attr_reader :times
      # @return [Integer, nil] the worker's number; nil for a single process
      attr_reader :worker

      # @param account [Array] ending, times, trace and worker; nil for those that are not known
      def initialize(env, status, bytes, seconds, headers, account = [])
        @env = env
        @status = status
        @bytes = bytes
        @seconds = seconds
        @headers = headers || {}
        @ending, @times, @trace, @worker = account
        @ending ||= :done
      end

      # @return [String] `GET`
      def method = @env["REQUEST_METHOD"]

      # @return [String] the path as the app has it, without the query
      def path = "#{@env['SCRIPT_NAME']}#{@env['PATH_INFO']}"

      # @return [String, nil] nil for none
      def query
        query = @env["QUERY_STRING"]
        query unless query.nil? || query.empty?
      end

      # @return [String] path and query as the client has sent them
      def target = @env["REQUEST_URI"]

      # @return [String] `HTTP/1.1`
      def protocol = @env["SERVER_PROTOCOL"]

      # @return [String] the client's address: `REMOTE_ADDR`
      def client = @env["REMOTE_ADDR"]

      # @return [String, nil] `REMOTE_USER`, which middleware sets
      def user = @env["REMOTE_USER"]

      # @return [String, nil] the `Host` of the request
      def host = @env["HTTP_HOST"]

      # @return [String, nil]
      def user_agent = @env["HTTP_USER_AGENT"]

      # @return [String, nil]
      def referer = @env["HTTP_REFERER"]

      # @return [String, nil] the trace that it belongs to, 32 digits: the app's, else that of `traceparent`
      def trace_id
        @trace || env["HTTP_TRACEPARENT"].to_s[TRACE, 1]
      end

      # @return [String, nil] the `X-Request-Id` of the app's response
      def request_id
        id = @headers["x-request-id"] || @headers["X-Request-Id"]
        id.is_a?(Array) ? id.first : id
      end
    end
  end
end
