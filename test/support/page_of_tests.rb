# frozen_string_literal: true

# For the test of a page in docs/ that says which tests show what: `scheduler/block#two_*` are the tests in
# test/scheduler/block_test.rb whose names begin with test_two_; c/ has C tests. PAGE is the page's name.
module PageOfTests
  TESTS = File.expand_path("..", __dir__)
  # How many references a page has at least, so that the test finds them.
  LEAST = 100

  def page = @page ||= File.read(File.expand_path("../docs/#{self.class::PAGE}", TESTS))

  # The tests that the page names, as [file, name]; a name may end with "*", which does not stand for the
  # number of a subsection.
  def references = page.scan(%r{`([a-z0-9_/]+)#(\w*\*?)`})

  # The names of the tests in a file, without "test_".
  def names_in(file)
    path = File.join(TESTS, "#{file}_test.#{file.start_with?('c/') ? 'c' : 'rb'}")
    assert_path_exists path
    text = File.read(path)
    file.start_with?("c/") ? text.scan(/^CHECK_CASE\((\w+)\)/).flatten : text.scan(/^  def test_(\w+)/).flatten
  end

  def matching(file, name)
    pattern = name.end_with?("*") ? /\A#{name.chomp('*')}(?!\d{1,2}_)/ : /\A#{name}\z/
    names_in(file).grep(pattern)
  end

  # The names of tests in these files that the page does not name.
  def unmentioned(files)
    files.flat_map do |file|
      seen = references.select { |known, _| known == file }.flat_map { |_, name| matching(file, name) }
      (names_in(file) - seen).map { |name| "#{file}##{name}" }
    end
  end

  def test_every_test_that_is_named_exists
    assert_operator references.size, :>=, self.class::LEAST
    missing = references.reject { |file, name| matching(file, name).any? }
    assert_empty missing.map { |file, name| "#{file}##{name}" }
  end
end
