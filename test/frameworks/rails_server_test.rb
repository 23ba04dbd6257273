# frozen_string_literal: true

require "test_helper"
require "fileutils"
require "support/framework_case"
require "support/mounted_web"

# `bin/rails server` in an app whose bundle has Abaca and no Puma.
class RailsServerTest < Minitest::Test
  include MountedWeb

  APPLICATION = <<~'RUBY'
    require "rails"
    require "action_controller/railtie"
    require "abaca"

    class Served < Rails::Application
      config.load_defaults "#{Rails::VERSION::MAJOR}.#{Rails::VERSION::MINOR}"
      config.eager_load = true
      config.hosts.clear
      config.secret_key_base = "no secret" * 8
      # As apps size their pools.
      initializer "threads" do |app|
        app.config.x.threads = defined?(::Puma) ? ::Puma.cli_config.options.fetch(:max_threads, 5) : "no Puma"
      end
      login = lambda do |env|
        ActionDispatch::Request.new(env).session[:operator] = true
        [204, {}, []]
      end
      routes.append do
        get "/login" => ->(_env) { [200, { "set-cookie" => "a=b" }, ['name="authenticity_token" value="none"']] }
        post "/login" => login
        constraints(->(request) { request.session[:operator] }) { mount Abaca::Web.new(acts: true) => "/abaca" }
        order = -> { Rails.application.initializers.tsort_each.map { |one| one.name.to_s } }
        get "/order" => ->(_env) { [200, {}, [order.call.join("\n")]] }
        get "/threads" => ->(_env) { [200, {}, [Rails.configuration.x.threads.to_s]] }
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
    assert_equal "3", server.get("/threads").body
    # The app's initializers come after those of the frameworks, as without Abaca.
    order = server.get("/order").body.lines(chomp: true)
    assert_operator order.rindex("load_config_initializers"), :>, order.index("action_controller.set_configs")
    assert_match(/=> Booting Abaca$/, server.output)
    assert_path_exists File.join(@dir, "tmp/pids/server.pid")
    server.signal(:INT)
    assert_predicate server.wait, :success?
    assert_match(/- Goodbye!/, server.output)
    # Before Ruby 3.2 there is one gem more that has something to be said about.
    own = server.output.lines.grep(/^abaca: /).grep_v(/ i18n \S+ on fibers: /)
    assert_operator own.size, :<=, 2, own.join
  end

  # One click in development: the banner's link lets a browser in, once. The same page is mounted in the app, too.
  def test_its_dashboard
    server = serve("-p", "0", "-b", "127.0.0.1", "ABACA_DASHBOARD" => nil)
    assert_equal "development fiber", server.get("/").body
    server.wait_for(/Use Ctrl-C/)
    link = URI(server.output[%r{^\* Dashboard: (http://127\.0\.0\.1:\d+/open\?code=\h{64})#\h+$}, 1])
    answer = Net::HTTP.get_response(link)
    assert_equal %w[303 /dashboard], [answer.code, answer["location"]]
    page = Net::HTTP.get_response(link + "/dashboard", "Cookie" => answer["set-cookie"][/[^;]+/])
    assert_equal "200", page.code
    assert_includes page.body, "<title>Abaca</title>"
    assert_equal "403", Net::HTTP.get_response(link).code
    assert_acts(server.port, *assert_behind_login(server.port))
  end

  def test_what_the_user_gives_wins
    write("config/puma.rb", "bind 'unix://#{@dir}/a.sock'\nmode :thread\n")
    server = serve("-p", "0", "-b", "127.0.0.1", "-e", "production")
    assert_equal "production thread", server.get("/").body
    refute_match(/Dashboard/, server.output)
    assert_behind_login(server.port)
    refute_path_exists File.join(@dir, "a.sock")
  end

  # Another server that is named is asked for, and nobody else.
  def test_a_server_that_is_named
    server = serve("-u", "webrick")
    server.wait
    assert_match(/Could not load server "webrick"/, server.output)
  end
end
