# frozen_string_literal: true

# also: rubies

require "test_helper"
require "support/scheduler_case"

# A server whose every allocation has all objects collected, from the first one in its process on.
class ServerCollectionTest < Minitest::Test
  include SchedulerCase

  def test_a_server_that_is_made
    # About 1,700 collections; without RubyGems' objects they take half as long, 3 s.
    status, out, err = run_ruby(<<~RUBY, "--disable-gems", within: 150)
      require "abaca"
      # What the server would load otherwise, collecting at each object of the files.
      require "rack"
      require "abaca/compat"
      require "abaca/pruned_bundle"
      log = Abaca::Log.new($stdout, $stderr)
      GC.stress = true
      server = Abaca::Server.new(->(_) { [200, {}, []] }, { log: log })
      GC.stress = false
      server.close
      puts "made"
    RUBY
    assert_predicate status, :success?, err
    assert_equal "made\n", out
  end
end
