# frozen_string_literal: true

# also: rubies

require "test_helper"
require_relative "command"

# What a client of the command learns when the app has raised.
class CommandErrorsTest < Minitest::Test
  include Command

  def answer(*argv)
    file("config.ru", "run ->(_env) { raise ArgumentError, 'the detail' }\n")
    server = start("-p", "0", *argv)
    server.get("/").tap do |response|
      assert_equal "500", response.code
      server.wait_for(/error in the app: ArgumentError: the detail/)
    end
  end

  def test_in_development_the_text
    response = answer
    assert_match(/\AAbaca caught this error: the detail \(ArgumentError\)\n.*config\.ru:1/, response.body)
    assert_equal "text/plain; charset=utf-8", response["content-type"]
  end

  def test_elsewhere_nothing
    refute_includes answer("-e", "production").body, "detail"
  end

  def test_what_the_file_says
    file("config/puma.rb", <<~'RUBY')
      lowlevel_error_handler { |error, env, status| [status, {}, ["#{env['PATH_INFO']} #{error}"]] }
    RUBY
    assert_equal "/ the detail", answer("-e", "production").body
    file("config/puma.rb", "show_errors false\n")
    refute_includes answer.body, "detail"
  end
end
