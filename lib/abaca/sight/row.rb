# frozen_string_literal: true

module Abaca
  class Sight
    # A row of a screen: `cells` by the keys of its columns; `mark` is :alarm where something is wrong, or nil; `id`
    # tells it from others, in one look and the next; `source` is what its detail is made of.
    Row = Struct.new(:id, :cells, :mark, :source, keyword_init: true) do
      # @param text [String] bytes, in lower case as far as they are ASCII
      # @return [Boolean] whether one of its words has it
      def match?(text)
        cells.each_value.any? do |value|
          case value
          when String, Symbol then value.to_s.b.downcase.include?(text)
          when Integer then value.to_s == text
          end
        end
      end
    end
  end
end
