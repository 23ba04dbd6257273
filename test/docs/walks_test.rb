# frozen_string_literal: true

require "test_helper"

# The walks of docs/architecture.md: each file is entered once on the way down and once on the way up. (That the
# files exist is in folders_test.rb.)
class WalksTest < Minitest::Test
  PAGE = File.read(File.expand_path("../../docs/architecture.md", __dir__))

  # The tables of walks: rows of [file, down, up].
  def walks
    PAGE.scan(/^\| file \| down: .+\n\|[-|]+\n((?:\|.+\n)+)/).map do |(rows)|
      rows.lines.map { |row| row.chomp.delete_prefix("|").split("|").map(&:strip) }
    end
  end

  def files(text) = text.scan(%r{`([\w/]+\.(?:c|h|rb))`}).flatten

  def test_no_file_is_entered_twice_in_one_direction
    assert_operator walks.size, :>=, 5
    walks.each do |rows|
      rows.each { |row| assert_equal 3, row.reject(&:empty?).size, row.join(" ") }
      [1, 2].each do |way|
        entered = rows.flat_map { |row| files(row.first) + files(row[way]) }
        assert_equal entered.uniq, entered
      end
    end
  end
end
