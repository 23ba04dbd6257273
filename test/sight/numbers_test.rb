# frozen_string_literal: true

require_relative "../test_helper"
require_relative "../support/server_case"

# A request has one number, in the page and in Server#requests: an operator reads it here and names it there.
class NumbersTest < Minitest::Test
  include ServerCase

  def setup
    @page = Abaca::Page.create(slots: 1, rows: 1)
    super
  end

  def teardown
    super
  ensure
    @page.close
  end

  def test_a_request_that_had_no_row_has_a_number
    gates = Hash.new { |all, path| all[path] = Queue.new }
    %w[/a /b /c].each { |path| gates[path] }
    running = serve(slot: @page[0].claim) do |env|
      gates[env["PATH_INFO"]].pop
      [200, {}, []]
    end
    clients = %w[/a /b].to_h { |path| [path, send_to(running, path)] }
    gates["/a"] << true
    clients["/a"].read
    clients["/c"] = send_to(running, "/c")
    row = @page[0].requests.find { |one| one[:path] == "/c" }
    assert_equal running.server.requests.find { |one| one[:path] == "/c" }[:id], row[:id]
  ensure
    gates&.each_value(&:close)
  end

  private

  # A client whose request has come to the app.
  def send_to(running, path)
    client = connect(running)
    client.write("GET #{path} HTTP/1.1\r\nHost: a.test\r\n\r\n")
    eventually { running.server.requests.any? { |one| one[:path] == path } }
    client
  end
end
