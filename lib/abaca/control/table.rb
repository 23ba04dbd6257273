# frozen_string_literal: true

require_relative "../log/text"

module Abaca
  class Control
    # An answer as text: a line for each value, and a table for each list. Nothing of a client moves the cursor.
    module Table
      # Characters of a cell.
      WIDEST = 80
      private_constant :WIDEST

      class << self
        # @param object [Hash]
        # @return [String]
        def text(object)
          lists, values = object.except(:v).partition { |_, value| rows?(value) }
          [*flat(values.to_h).map { |name, value| "#{name} #{cell(value)}" },
           *lists.flat_map { |name, rows| ["", "#{name} (#{rows.size})", *table(rows)] }, ""].join("\n").sub(/\A\n/, "")
        end

        private

        def rows?(value) = value.is_a?(Array) && value.all?(Hash)

        # What is nested has its names joined.
        def flat(hash, before = nil)
          hash.each_with_object({}) do |(name, value), all|
            name = [before, name].compact.join(".")
            value.is_a?(Hash) ? all.update(flat(value, name)) : all[name] = value
          end
        end

        def table(rows)
          rows = rows.map { |row| flat(row).transform_values { |value| cell(value) } }
          names = rows.flat_map(&:keys).uniq
          wide = names.map { |name| [name.size, *rows.map { |row| row[name].to_s.size }].max }
          [names, *rows.map { |row| row.values_at(*names) }].map do |line|
            line.zip(wide).map { |text, width| text.to_s.ljust(width) }.join("  ").rstrip
          end
        end

        def cell(value)
          text = case value
                 when nil then "-"
                 when Float then value.round(3).to_s
                 when Array then value.join(", ")
                 else value.to_s
                 end
          Log::Text.escape(text)[0, WIDEST]
        end
      end
    end
  end
end
