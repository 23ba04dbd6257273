# frozen_string_literal: true

module Abaca
  # The methods of Puma::LogWriter that log an exception. An includer has `report(text)` and `debug(text)`, which take a
  # line. A request is anything with a Rack env; an exception may be missing.
  module PumaErrors
    # A connection has failed.
    def connection_error(error, request, text = "HTTP connection error") = report(line(text, error, request))

    # A client has sent something that is not HTTP.
    def parse_error(error, request) = report(line("HTTP parse error", error, request))

    # A TLS handshake has failed.
    #
    # @param socket [#peeraddr]
    def ssl_error(error, socket)
      peer = begin
        " of #{socket.peeraddr.last}"
      rescue StandardError
        nil # the client has gone
      end
      report(line("TLS error#{peer}", error))
    end

    # Something else has failed.
    def unknown_error(error, request = nil, text = "Unknown error") = report(line(text, error, request))

    # The same, for debugging only.
    def debug_error(error, request = nil, text = "") = debug(line(text, error, request))

    private

    def line(text, error, request = nil)
      env = request.respond_to?(:env) ? request.env : nil
      where = " in #{env['REQUEST_METHOD']} #{env['PATH_INFO']}" if env
      text = "an error" if text.to_s.empty?
      "#{[text, *("#{error.message} (#{error.class})" if error)].join(': ')}#{where}"
    end
  end
end
