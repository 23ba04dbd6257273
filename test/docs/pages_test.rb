# frozen_string_literal: true

require "test_helper"
require "rdoc"

# Every table of the pages is rendered, and is a table then, with as many cells in each row; and what looks like a link
# is one. Where links lead is links_test.rb's.
class PagesTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  PAGES = Dir[File.join(ROOT, "{*.md,{docs,bench}/*.md,{ext,test}/**/README.md}")].freeze

  # Without code.
  def blocks(text) = text.gsub(/^ *```.*?^ *```$/m, "").split(/\n{2,}/).grep_v(/\A {4}/)

  # Cells, as GitHub separates them: also within code.
  def cells(row) = row.strip.delete_prefix("|").sub(/(?<!\\)\|\z/, "").split(/(?<!\\)\|/, -1).size

  def table?(block)
    rows = block.lines.size
    shown = RDoc::Markdown.parse("#{block}\n").parts
    shown.one? && shown.first.is_a?(RDoc::Markup::Table) && shown.first.body.size == rows - 2 &&
      block.lines.map { |row| cells(row) }.uniq.one?
  end

  # What is not what it was meant to be.
  def broken(text)
    tables, others = blocks(text).partition { |block| block.match?(/^\|/) }
    links = others.flat_map { |block| block.gsub(/`[^`]*`/, "").scan(/\]\s+\([\w.#][^)]*\)|\]\([^)]*\s[^)]*\)/) }
    tables.reject { |block| table?(block) } + links
  end

  def test_every_page_is_what_it_was_meant_to_be
    assert_operator PAGES.size, :>, 40
    found = PAGES.to_h { |page| [page.delete_prefix("#{ROOT}/"), broken(File.read(page))] }
    assert_empty found.reject { |_, parts| parts.empty? }
  end

  def test_what_would_be_found
    table = "| a | b |\n|---|---|\n| `x\\|y` | y |\n"
    assert_empty broken("Text.\n\n#{table}\n[a](b.md)\n\n```\n| a |\n```\n")
    ["| c | d |", "Text\n| c | d |", "#{table}| `c|d` | e |", "[a] (b.md)", "[a](b.md\n#c)"].each do |text|
      assert_equal 1, broken("#{table}\n#{text}\n").size, text
    end
  end
end
