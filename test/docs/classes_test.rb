# frozen_string_literal: true

require "test_helper"

# A test class belongs to one file: a second one of the same name would reopen it, and either setup might win.
class TestClassesTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)

  # The files that define each class of tests, by its name.
  def files_by_class
    Dir[File.join(ROOT, "**/*_test.rb")].each_with_object(Hash.new { |hash, name| hash[name] = [] }) do |path, found|
      File.read(path).scan(/^class (\S+) </).flatten.uniq.each { |name| found[name] << path.delete_prefix("#{ROOT}/") }
    end
  end

  def test_every_class_has_one_file
    assert_operator files_by_class.size, :>, 100
    assert_empty(files_by_class.select { |_, files| files.size > 1 })
  end
end
