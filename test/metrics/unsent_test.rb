# frozen_string_literal: true

require "test_helper"
require "abaca"
require "support/process_case"
require "support/shim"
require "support/wire"

# An answer is counted before it is sent, and then there is no memory to send it.
class MetricsUnsentTest < Minitest::Test
  include ProcessCase
  include Shim

  APP = <<~RUBY
    run(lambda do |env|
      sleep 0.01 if env["PATH_INFO"].start_with?("/slow")
      env["action_dispatch.route_uri_pattern"] = "/slow" if env["PATH_INFO"] == "/slow/route"
      [200, {}, [env["PATH_INFO"] == "/" ? "done" : "unsent"]]
    end)
  RUBY

  def ask(path) = connect(@command.port).call("GET #{path} HTTP/1.1\r\nHost: a.test\r\n\r\n")

  def totals = @page[0].totals.values_at(:ended, :failed)

  # A plain request, one that is not, and one with a route.
  def test_it_is_counted_once_and_has_failed
    with_shim("no_memory") { @command = run_abaca(APP) }
    assert_equal 200, ask("/").status
    @page = Abaca::Page.of(@command.pid)
    assert_equal [1, 0], totals
    ["/plain", "/slow", "/slow/route"].each_with_index do |path, i|
      assert_equal 500, ask(path).status, path
      assert_equal [i + 2, i + 1], totals, path
      assert_equal i + 2, @page[0].series.select { |one| one[:kind] == :request }.sum { |one| one[:count] }
    end
    assert_equal([[1, 1]], @page[0].routes.map { |route| route.values_at(:requests, :errors) })
    assert(eventually { @command.text.scan(/NoMemoryError: .* \(GET /).size == 3 })
    assert_equal 200, ask("/").status
    assert_equal [5, 3], totals
  ensure
    @page&.close
  end
end
