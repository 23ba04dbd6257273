# frozen_string_literal: true

require "test_helper"
require "abaca"
require "abaca/launcher"
require "tmpdir"

# Where deploy tools say what they have deployed.
class RevisionTest < Minitest::Test
  REVISION = Abaca::Launcher::Revision

  def test_a_file_comes_first_and_then_variables
    Dir.mktmpdir do |folder|
      assert_nil REVISION.of(folder, {})
      assert_equal "k1", REVISION.of(folder, { "GIT_SHA" => " ", "KAMAL_VERSION" => "k1", "HEROKU_SLUG_COMMIT" => "h" })
      File.write("#{folder}/REVISION", "\n")
      assert_equal "g1", REVISION.of(folder, { "GIT_SHA" => "g1", "KAMAL_VERSION" => "k1" })
      File.binwrite("#{folder}/REVISION", "3f2a\xFF#{"9" * 200}\n")
      assert_equal "3f2a#{"9" * 36}", REVISION.of(folder, { "GIT_SHA" => "g1" })
      File.delete("#{folder}/REVISION")
      Dir.mkdir("#{folder}/REVISION")
      assert_nil REVISION.of(folder, {})
    end
  end
end
