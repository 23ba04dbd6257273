# frozen_string_literal: true

module Abaca
  class CLI
    # Flags that the table of settings has: operators change these from one start to the next. `max_queue` is
    # --max-queue; Config checks the values.
    module Settings
      # Columns of a terminal that the help takes, and where the texts begin.
      WIDTH = 110
      TEXT = 35
      private_constant :WIDTH, :TEXT

      private

      def settings(words)
        Config::SECTIONS.each do |headline, rows|
          rows = rows.select(&:flag)
          next if rows.empty?

          words.separator("\n#{headline_of(headline, rows)}:")
          rows.each do |row|
            words.on(*row.option, *wrap(help_of(row))) do |given|
              @settings[row.name] = row.type.from_flag(given, @settings[row.name])
            end
          end
        end
      end

      def headline_of(headline, rows)
        pages = rows.filter_map(&:page)
        pages << "configuration.md" if rows.any? { |row| row.type.is_a?(Config::Types::Limit) }
        notes = pages.uniq.map { |page| "docs/#{page}" }
        notes.unshift("times are milliseconds") if rows.any? { |row| row.unit == "milliseconds" }
        notes.empty? ? headline : "#{headline} (#{notes.join(', ')})"
      end

      def help_of(row)
        text = row.doc.delete("`")
        text = "#{text[0].upcase}#{text[1..]}"
        text += ": #{row.type.names.join(' or ')}" if row.type.is_a?(Config::Types::Choice)
        default = row.switch? ? nil : row.shown || default_of(row.default)
        default ? "#{text} (default: #{default.delete('`')})" : text
      end

      def default_of(value)
        case value
        when nil, false, [] then nil
        when Array then value.join(":")
        else value.to_s.delete_suffix(".0")
        end
      end

      # Lines that fit.
      def wrap(text)
        text.scan(/\S.{0,#{WIDTH - TEXT - 1}}(?=\s|\z)/)
      end
    end
  end
end
