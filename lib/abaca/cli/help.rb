# frozen_string_literal: true

module Abaca
  class CLI
    # What `abaca --help` says of the flags that the table of settings has.
    class Help
      # Columns of a terminal that the help takes, and where the texts begin.
      WIDTH = 110
      TEXT = 35
      private_constant :WIDTH, :TEXT

      # @param headline [String] of docs/configuration.md
      # @param rows [Array<Config::Setting>] below it
      # @return [String] the same, with the pages that have the details
      def headline(headline, rows)
        pages = rows.filter_map(&:page)
        pages << "configuration.md" if rows.any? { |row| row.type.is_a?(Config::Types::Limit) }
        notes = pages.uniq.map { |page| "docs/#{page}" }
        notes.unshift("times are milliseconds") if rows.any? { |row| row.unit == "milliseconds" }
        notes.empty? ? headline : "#{headline} (#{notes.join(', ')})"
      end

      # @param row [Config::Setting]
      # @return [Array<String>] lines that fit
      def lines(row) = text(row).scan(/\S.{0,#{WIDTH - TEXT - 1}}(?=\s|\z)/)

      private

      def text(row)
        text = row.doc.delete("`")
        text = "#{text[0].upcase}#{text[1..]}"
        text += ": #{row.type.names.join(' or ')}" if row.type.is_a?(Config::Types::Choice)
        default = row.switch? ? nil : row.shown || default(row.default)
        default ? "#{text} (default: #{default.delete('`')})" : text
      end

      def default(value)
        case value
        when nil, false, [] then nil
        when Array then value.join(":")
        else value.to_s.delete_suffix(".0")
        end
      end
    end
  end
end
