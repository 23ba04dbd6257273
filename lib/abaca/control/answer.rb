# frozen_string_literal: true

require "json"

module Abaca
  class Control
    # An answer of the control server; JSON is on one line, as tools take the last line that they read.
    Answer = Struct.new(:status, :type, :body) do
      # @param object [Hash, Array]
      # @return [Answer]
      def self.json(object, status: 200) = new(status, "application/json", JSON.generate(object))

      # @return [Answer]
      def self.text(status, text) = new(status, "text/plain; charset=utf-8", text)

      # What a client gets that asked with this verb.
      #
      # @return [String]
      def to_http(verb)
        "HTTP/1.1 #{status} #{Engine.status_phrase(status)}\r\nContent-Type: #{type}\r\n" \
          "Content-Length: #{body.bytesize}\r\nCache-Control: no-store\r\n" \
          "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n#{body.b unless verb == 'HEAD'}"
      end
    end
  end
end
