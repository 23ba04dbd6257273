# frozen_string_literal: true

# The tables of docs/configuration.md that come from the table of settings.
module SettingsPage
  COLUMNS = "| setting | values | default | flag | what it is for |\n"
  OBJECT = "| option | default | in a file |\n"

  class << self
    # @param page [String]
    # @return [String] the same with the tables as lib/abaca/config/settings.rb has them
    # @raise [RuntimeError] when the page has no place for one
    def render(page)
      sections = Abaca::Config::SECTIONS
      written = sections.reduce(page) do |text, (headline, rows)|
        rows = rows.reject { |row| row.methods_of_file.empty? }
        rows.empty? ? text : replace(text, headline, COLUMNS, rows.map { |row| line(row) })
      end
      options = sections.values.flatten.select(&:object)
      replace(written, "As an object", OBJECT, options.map { |row| cells(code([row.name]), default(row), row.object) })
    end

    private

    def replace(page, headline, columns, lines)
      place = /^## #{Regexp.escape(headline)}\n(?:(?!## ).*\n)*?#{Regexp.escape(columns)}\|[-|]+\n\K(?:\|.*\n)*/
      raise "docs/configuration.md has no table below `#{headline}'" unless page.match?(place)

      page.sub(place) { lines.join }
    end

    def line(row)
      cells(code(row.methods_of_file), row.type.values, default(row), flags(row), purpose(row))
    end

    def cells(*texts) = "#{texts.map { |text| "| #{text}".rstrip }.join(' ')} |\n"

    def code(names) = names.map { |name| "`#{name}`" }.join(", ")

    def default(row)
      row.shown || (row.default_text ? "`#{row.default_text}`" : "none")
    end

    def flags(row) = row.flag_names.map { |name| name.start_with?("-") ? "`#{name}`" : name }.join(", ")

    def purpose(row)
      link = " ([#{row.page}](#{row.page}))" if row.page
      since = " (since #{row.since})" unless row.since == "0.1.0"
      "#{row.doc}#{since}#{link}"
    end
  end
end
