# frozen_string_literal: true

require "json"
require_relative "table"

module Abaca
  class Control
    # An answer of the control server; JSON is on one line, as tools take the last line that they read. `fields` are
    # further header fields. `stream` is asked again and again for more.
    # `job` is asked for the answer until there is one, and cancelled if the client goes.
    Answer = Struct.new(:status, :type, :body, :fields, :stream, :job) do
      # @param object [Hash, Array]
      # @return [Answer]
      def self.json(object, status: 200) = new(status, "application/json", generate(object))

      # @param text [String] in it, too, nothing moves a terminal's cursor
      # @return [Answer]
      def self.text(status, text, fields = nil)
        new(status, "text/plain; charset=utf-8", Log::Text.visible(text), fields)
      end

      # One of ours, which has a version: keys are only added.
      #
      # @param object [Hash]
      # @param request [Request] may ask for text
      # @return [Answer]
      def self.of(object, request)
        return text(200, Table.text(object)) if request.prefers?("text/plain")

        new(200, "application/json", line(object))
      end

      # @param object [Hash]
      # @return [String] JSON with our version
      def self.line(object) = generate({ v: 1, **object })

      # @param object [Object] texts in it may be any bytes, while JSON is UTF-8
      # @return [String] JSON on one line
      def self.generate(object) = Page::Line.json(object, "?", false)

      # @param stream [#next] returns what is to be sent
      # @return [Answer]
      def self.events(stream) = new(200, "text/event-stream", "", nil, stream)

      # @param job [#answer, #cancel] what it will be
      # @return [Answer]
      def self.later(job) = new(200, nil, "", nil, nil, job)

      # What a client gets that asked with this verb.
      #
      # @return [String]
      def to_http(verb)
        "HTTP/1.1 #{status} #{Engine.status_phrase(status)}\r\nContent-Type: #{type}\r\n" \
          "#{fields&.map { |name, value| "#{name}: #{value}\r\n" }&.join}" \
          "#{"Content-Length: #{body.bytesize}\r\n" unless stream}Cache-Control: no-store\r\n" \
          "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n#{body.b unless verb == 'HEAD'}"
      end
    end
  end
end
