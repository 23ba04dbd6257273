# frozen_string_literal: true

module Abaca
  # rack.early_hints: tells the client what the response will refer to, while the app still works on it (Rack SPEC,
  # "Early Hints"; RFC 8297). Offered with the setting `early_hints`.
  class EarlyHints
    # @param exchange [Exchange]
    def initialize(exchange)
      @exchange = exchange
    end

    # Sends a 103. Clients of HTTP/1.0 get none, and after the response's head it is too late.
    #
    # @param headers [Hash{String => String, Array<String>}] each line of a value is a field
    # @return [nil]
    # @raise [AppError] for a field that cannot be sent
    # @raise [IOError] after the request
    def call(headers)
      @exchange.inform(103, headers)
      nil
    end
  end
end
