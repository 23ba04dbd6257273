# frozen_string_literal: true

module Abaca
  # What a client gets if the app raises before its response has begun: the result of `lowlevel_error_handler`, or,
  # where errors are shown, the exception's text. With neither, it gets the server's own answer, which says nothing of
  # the exception.
  class ErrorAnswers
    # Text, whatever the message looks like.
    HEADERS = { "content-type" => "text/plain; charset=utf-8", "x-content-type-options" => "nosniff" }.freeze
    # Characters of a message or a line that are shown.
    LONGEST = 10_000
    private_constant :HEADERS, :LONGEST

    # @param config [Config]
    # @return [ErrorAnswers, nil] nil if neither is set
    def self.of(config)
      handler = config[:lowlevel_error_handler]
      new(handler) if handler || config[:show_errors]
    end

    # @param handler [#call, nil] called with as many of error, env and status as it takes, and returns a triplet
    def initialize(handler = nil)
      @handler = handler
      @arguments = arguments_of(handler) if handler
    end

    # @param error [Exception] what the app has raised
    # @param env [Hash] of its request
    # @param status [Integer] what the server would answer
    # @return [Array] a Rack triplet
    def call(error, env, status)
      return @handler.call(*[error, env, status].first(@arguments)) if @handler

      [status, HEADERS.dup, [text(error)]]
    end

    private

    # Puma's rule: 1 or 2 are as many, everything else all three.
    def arguments_of(handler)
      arity = (handler.respond_to?(:arity) ? handler : handler.method(:call)).arity
      [1, 2].include?(arity) ? arity : 3
    end

    def text(error)
      lines = ["Abaca caught this error: #{Log::Text.visible(error.message)} (#{error.class})", *error.backtrace]
      lines.map { |line| "#{Log::Text.visible(line[0, LONGEST])}\n" }.join
    end
  end
end
