# frozen_string_literal: true

require "test_helper"
require "support/framework_case"

# A Rails app in development: files change while requests at the same time use what they define.
class RailsReloadTest < Minitest::Test
  include Command

  FOLDER = File.join(FrameworkCase::FOLDER, "rails")

  APP = <<~RUBY
    require "action_controller/railtie"

    class Words < Rails::Application
      config.load_defaults "\#{Rails::VERSION::MAJOR}.\#{Rails::VERSION::MINOR}"
      config.root = __dir__
      config.api_only = true
      config.eager_load = false
      config.enable_reloading = true
      config.hosts.clear
      config.secret_key_base = "no secret" * 8
      config.logger = ActiveSupport::Logger.new($stderr, level: Logger::FATAL)
    end

    Words.initialize!
    QUEUES = Hash.new { |queues, name| queues[name] = Queue.new }
    # Outside of Rails, whose lock may be taken.
    map("/pop") { run ->(env) { [200, {}, [QUEUES[env["PATH_INFO"]].pop.to_s]] } }
    map("/push") { run ->(env) { [200, {}, [(QUEUES[env["PATH_INFO"]] << "pushed").size.to_s]] } }
    run(lambda do |env|
      QUEUES["/come"] << env["PATH_INFO"]
      Words.call(env)
    end)
  RUBY

  ROUTES = <<~RUBY
    Words.routes.draw { %w[now stay].each { |action| get "/\#{action}", to: "words#\#{action}" } }
  RUBY

  CONTROLLER = <<~RUBY
    class WordsController < ActionController::API
      def now = render(plain: Word::TEXT)

      def stay
        before = Word
        QUEUES["/inside"] << "inside"
        QUEUES["/gate"].pop
        render plain: [before::TEXT, Word::TEXT, before.equal?(Word)].join(" ")
      end
    end
  RUBY

  # A file that waits while it is loaded, as one does that asks the database for its columns.
  def define(text)
    file("app/models/word.rb", "class Word\n  sleep 0.05\n  TEXT = #{text.inspect}\nend\n")
  end

  def boot(*options)
    file("config.ru", APP)
    file("app/controllers/words_controller.rb", CONTROLLER)
    file("config/routes.rb", ROUTES)
    define("old")
    environment = FrameworkCase.environment(FOLDER).merge("RACK_ENV" => "development", "RAILS_ENV" => "development")
    start("-b", "tcp://127.0.0.1:0", *options, "config.ru", env: environment).tap(&:port)
  end

  def asked(server, path) = Thread.new { server.get(path).then { |response| [response.code, response.body] } }

  def test_a_file_that_changes_takes_nothing_from_requests
    server = boot
    assert_includes server.output, "Rails reloads: its lock counts fibers"
    assert_equal [%w[200 old]] * 5, Array.new(5) { asked(server, "/now") }.map(&:value)
    5.times { server.get("/pop/come") }
    stays = asked(server, "/stay")
    assert_equal %w[/stay inside], [server.get("/pop/come").body, server.get("/pop/inside").body]
    define("newer")
    changed = asked(server, "/now")
    assert_equal "/now", server.get("/pop/come").body # it has come to the reloader
    server.get("/push/gate")
    assert_equal ["200", "old old true"], stays.value
    assert_equal %w[200 newer], changed.value
    assert_equal [%w[200 newer]] * 5, Array.new(5) { asked(server, "/now") }.map(&:value)
  end
end
