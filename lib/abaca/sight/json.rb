# frozen_string_literal: true

require_relative "../log/text"

module Abaca
  class Sight
    # Looks as JSON, on one line, whatever bytes clients have sent.
    module JSON
      # Stands for bytes that are no UTF-8.
      STAND_IN = "\u{FFFD}"
      private_constant :STAND_IN

      # @param value [Object] of Hashes, Arrays, numbers, texts and Times
      # @return [String]
      def self.line(value) = Page::Line.json(value, STAND_IN, true)
    end
  end
end
