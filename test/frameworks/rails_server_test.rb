# frozen_string_literal: true

require "test_helper"
require "fileutils"
require "support/framework_case"

# `bin/rails server` in an app whose bundle has Abaca and no Puma.
class RailsServerTest < Minitest::Test
  APPLICATION = <<~'RUBY'
    require "rails"
    require "action_controller/railtie"
    require "abaca"

    class Served < Rails::Application
      config.load_defaults "#{Rails::VERSION::MAJOR}.#{Rails::VERSION::MINOR}"
      config.eager_load = true
      config.hosts.clear
      config.secret_key_base = "no secret" * 8
      routes.append do
        root to: ->(_env) { [200, {}, ["#{Rails.env} #{ActiveSupport::IsolatedExecutionState.isolation_level}"]] }
      end
    end
  RUBY
  COMMAND = <<~RUBY
    APP_PATH = File.expand_path("config/application", __dir__)
    require "rails/command"
    Rails::Command.invoke(ARGV.shift, ARGV)
  RUBY

  def setup
    super
    @dir = File.realpath(Dir.mktmpdir("abaca"))
    FileUtils.mkdir(File.join(@dir, "config"))
    write("config/application.rb", APPLICATION)
    write("config.ru", "Rails.application.initialize!\nrun Rails.application\n")
    write("rails.rb", COMMAND)
  end

  def teardown
    @server&.destroy
    FileUtils.remove_entry(@dir)
    super
  end

  def write(name, text) = File.write(File.join(@dir, name), text)

  def serve(*argv, **env)
    variables = FrameworkCase.environment(File.join(FrameworkCase::FOLDER, "rails"))
    @server = Command::Running.new([*Command.ruby, "-W0", "rails.rb", "server", *argv],
                                   dir: @dir, env: variables.merge("RAILS_ENV" => nil, "RACK_ENV" => nil, **env))
  end

  def test_it_boots_abaca_where_the_file_says
    write("config/puma.rb", "threads 3\nbind 'tcp://127.0.0.1:0'\nplugin :tmp_restart\n")
    server = serve
    assert_equal "development fiber", server.get("/").body
    assert_match(/=> Booting Abaca$/, server.output)
    assert_path_exists File.join(@dir, "tmp/pids/server.pid")
    server.signal(:INT)
    assert_predicate server.wait, :success?
    assert_match(/- Goodbye!/, server.output)
    # Before Ruby 3.2 there is one gem more that has something to be said about.
    own = server.output.lines.grep(/^abaca: /).grep_v(/ i18n \S+ on fibers: /)
    assert_operator own.size, :<=, 2, own.join
  end

  def test_what_the_user_gives_wins
    write("config/puma.rb", "bind 'unix://#{@dir}/a.sock'\nmode :thread\n")
    server = serve("-p", "0", "-b", "127.0.0.1", "-e", "production")
    assert_equal "production thread", server.get("/").body
    refute_path_exists File.join(@dir, "a.sock")
  end

  # Another server that is named is asked for, and nobody else.
  def test_a_server_that_is_named
    server = serve("-u", "webrick")
    server.wait(within: Command::SECONDS_TO_BOOT)
    assert_match(/Could not load server "webrick"/, server.output)
  end
end
