# frozen_string_literal: true

require_relative "column"
require_relative "row"

module Abaca
  class Sight
    # A table of what there is: what its subclasses have rows and columns of. All faces show the same ones.
    class Screen
      # Rows that are given; #total counts all.
      MOST = 250

      class << self
        # @return [Symbol] its name in JSON and in addresses
        attr_reader :key
        # @return [String]
        attr_reader :title
        # @return [Array<Column>]
        attr_reader :columns
        # @return [Symbol] the key of the column that it is sorted by at first
        attr_reader :sort
        # @return [Boolean] whether that is from small to large
        attr_reader :rising

        private

        def describe(key, title, columns, sort:, rising: false)
          @key = key
          @title = title
          @columns = columns.freeze
          @sort = sort
          @rising = rising
        end

        def figure(...) = Column.figure(...)
        def words(...) = Column.words(...)
      end

      # @return [Symbol] the column that it is sorted by
      attr_reader :sort

      # @param look [Look]
      # @param sort [Symbol, nil] a column's key
      # @param turned [Boolean] the other way round
      # @param filter [String, nil] rows that have this text only
      # @param worker [Integer, nil] of this worker only
      def initialize(look, sort: nil, turned: false, filter: nil, worker: nil)
        @look = look
        @sort = self.class.columns.any? { |column| column.key == sort } ? sort : self.class.sort
        @rising = self.class.rising ^ turned
        @filter = filter.to_s.b.downcase
        @worker = worker
      end

      # @return [Array<Column>]
      def columns = self.class.columns

      # @return [Boolean] whether it is sorted from small to large
      def rising? = @rising

      # @return [Array<Row>] sorted, at most MOST
      def rows = sorted.first(MOST)

      # @return [Integer] how many there are
      def total = sorted.size

      # @return [String, nil] what else is to be known
      def note = nil

      # @param most [Integer]
      # @return [Hash{Symbol => Object}] for JSON; its `rows` are an Array, or one that is written already
      def to_h(most: MOST)
        { title: self.class.title, sort: @sort, rising: @rising, total:, note:, rows: lines(most) }.compact
      end

      private

      # The rows for JSON.
      def lines(most) = rows.first(most).map { |row| { id: row.id, mark: row.mark, **row.cells }.compact }

      # Subclasses have #all.
      def sorted
        @sorted ||= begin
          found = all
          found.select! { |row| row.match?(@filter) } unless @filter.empty?
          order(found)
        end
      end

      # Rows without a value come last in both directions.
      def order(found)
        with, without = found.partition { |row| row.cells[@sort] }
        text = with.any? { |row| !row.cells[@sort].is_a?(Numeric) && !row.cells[@sort].is_a?(Time) }
        list = with.sort_by.with_index do |row, i|
          value = row.cells[@sort]
          [text ? value.to_s.b : value.to_f, @rising ? i : -i]
        end
        (@rising ? list : list.reverse) + without
      end

      def workers = @look.now.there.select { |worker| @worker.nil? || worker.index == @worker }
    end
  end
end
