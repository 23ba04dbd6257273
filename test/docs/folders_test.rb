# frozen_string_literal: true

require "test_helper"

# The README of a folder of the extension names every file in it, and pages that name files name such as there are.
class FolderPagesTest < Minitest::Test
  ROOT = File.expand_path("../..", __dir__)
  READMES = Dir[File.join(ROOT, "ext/abaca/*/README.md")].freeze
  SOURCE = %r{`([\w/*.-]+\.(?:c|h|rb|md|jsonl))`}

  # The files that a text names; `head.{c,h}` are two.
  def named(text)
    text.gsub(/(\w+)\.\{c,h\}/, '\1.c`, `\1.h').scan(SOURCE).flatten
  end

  def test_every_file_of_a_folder_is_named
    refute_empty READMES
    READMES.each do |readme|
      files = Dir.children(File.dirname(readme)).grep(/\.[ch]\z/)
      assert_empty files - named(File.read(readme)), readme
    end
  end

  def test_every_file_that_is_named_exists
    [*READMES, File.join(ROOT, "docs/architecture.md")].each do |page|
      names = named(File.read(page))
      refute_empty names, page
      missing = names.select do |name|
        [name, "ext/abaca/**/#{name}", "test/c/**/#{name}", "lib/abaca/**/#{name}"].all? do |place|
          Dir[File.join(ROOT, place)].empty?
        end
      end
      assert_empty missing, page
    end
  end
end
