# frozen_string_literal: true

require "json"
require_relative "../log/text"

module Abaca
  class Sight
    # Looks as JSON, on one line, whatever bytes clients have sent.
    module JSON
      # Digits behind the point: microseconds.
      DIGITS = 6
      private_constant :DIGITS

      module_function

      # @param value [Object] of Hashes, Arrays, numbers, texts and Times
      # @return [String]
      def line(value) = ::JSON.generate(plain(value))

      # @return [Object] the same of what JSON has
      def plain(value)
        case value
        when Hash then value.to_h { |key, one| [Log::Text.utf8(key), plain(one)] }
        when Array then value.map { |one| plain(one) }
        when Float then value.finite? ? value.round(DIGITS) : nil
        when Integer, true, false, nil then value
        when Time then value.getutc.strftime("%FT%T.%3NZ")
        else Log::Text.utf8(value, "\u{FFFD}")
        end
      end
    end
  end
end
