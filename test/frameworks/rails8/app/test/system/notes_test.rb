# frozen_string_literal: true

require "application_system_test_case"
require "net/http"

class NotesTest < ApplicationSystemTestCase
  test "a note is written" do
    visit root_path
    click_on "New note"
    fill_in "Title", with: "Milk"
    click_on "Save"
    assert_selector "h1", text: "Milk"
  end

  # As a browser does: over HTTP, from Capybara's server, within the test's transaction.
  test "a note of the test is served" do
    note = Note.create!(title: "Bread")
    server = Capybara::Server.new(Rails.application, host: "127.0.0.1").boot
    answer = Net::HTTP.get_response(server.host, "/notes/#{note.id}", server.port)
    assert_includes answer.body, "Bread"
    assert_includes answer.body, "served by abaca"
  end
end
