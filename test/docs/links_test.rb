# frozen_string_literal: true

require "test_helper"

# Links of the pages, from one to another and to files: each leads to a file that exists, and to a heading in it.
class LinksTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  PAGES = Dir[File.join(ROOT, "{*.md,{docs,bench}/*.md,ext/abaca/*/README.md}")].freeze

  # Fields of the links in a page: the path, or "" for the page itself, and the heading, or nil.
  def links(page)
    File.read(page).scan(/\]\(([^)#\s]*)(?:#([^)\s]+))?\)/).reject { |path, _| path.match?(/\A\w+:/) }
  end

  # The anchors that GitHub gives the headings of a page.
  def anchors(page)
    File.readlines(page).grep(/\A#+ /).map do |line|
      line.sub(/\A#+ /, "").strip.downcase.gsub(/[^\p{Word}\- ]/, "").tr(" ", "-")
    end
  end

  def test_links_lead_somewhere
    found = PAGES.sum do |page|
      links(page).each do |path, heading|
        target = path.empty? ? page : File.expand_path(path, File.dirname(page))
        assert_path_exists target, page
        assert_includes anchors(target), heading, page if heading
      end.size
    end
    assert_operator found, :>=, 100
  end
end
