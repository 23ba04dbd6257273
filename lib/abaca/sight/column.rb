# frozen_string_literal: true

module Abaca
  class Sight
    # A column of a screen: its `key` in a row's values (and in JSON), its `title`, the `unit` of its values
    # (Units.text), and its `align`. One that is `wide` takes the room that is left; `rank` says which ones stay where
    # there is no room: those with small ones.
    Column = Struct.new(:key, :title, :unit, :align, :wide, :rank, keyword_init: true) do
      # @return [Column] of figures, which stand at the right
      def self.figure(key, title, unit, rank: 1) = new(key:, title:, unit:, align: :right, wide: false, rank:)

      # @return [Column] of words
      def self.words(key, title, wide: false, rank: 1, unit: :text)
        new(key:, title:, unit:, align: :left, wide:, rank:)
      end
    end
  end
end
