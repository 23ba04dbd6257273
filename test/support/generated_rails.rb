# frozen_string_literal: true

require "fileutils"
require "open3"
require "tmpdir"
require_relative "../cli/command"
require_relative "framework_case"
require_relative "postgres"

# A Rails 8 app as `rails new` writes it, with the files of test/frameworks/rails8/app on top. A process of tests has
# one, which its tests share.
module GeneratedRails
  FOLDER = File.join(FrameworkCase::FOLDER, "rails8")
  # What a test has no use for, and what looks into the network.
  SKIPPED = %w[bundle git ci rubocop brakeman bundler-audit javascript].freeze
  # What `rails new` runs once the gems are installed, in a process for each.
  INSTALLERS = <<~RUBY
    Rails.application.load_generators
    %w[solid_cache solid_queue solid_cable].each { |name| Rails::Generators.invoke("\#{name}:install") }
  RUBY
  # The databases of production, by the first words of their variables.
  DATABASES = %w[DATABASE CACHE_DATABASE QUEUE_DATABASE CABLE_DATABASE].freeze
  # What Bootsnap has compiled of the gems, which is the same for each app. It is begun anew when there are more files
  # than this, as each app adds its own.
  COMPILED = File.join(Command::ROOT, "tmp/bootsnap")
  MOST_COMPILED = 10_000
  private_constant :COMPILED, :MOST_COMPILED

  class << self
    # Why there is no app with this Ruby; nil where there is one.
    def missing
      "Rails 8 is tested from Ruby 3.4 on: its gems are not installed for older ones" if RUBY_VERSION < "3.4"
    end

    # The folder of the app, made when it is first asked for, and removed at the end.
    def dir
      @dir ||= make(File.realpath(Dir.mktmpdir("abaca")))
    end

    # Variables of the environment for what runs in the app.
    def environment
      FrameworkCase.environment(FOLDER).merge("RACK_ENV" => nil, "RAILS_LOG_LEVEL" => "warn",
                                              "SECRET_KEY_BASE" => "no secret" * 8,
                                              "BOOTSNAP_CACHE_DIR" => COMPILED)
    end

    # The same for an app whose databases are PostgreSQL's; they are prepared when they are first asked for.
    def on_postgres
      @on_postgres ||= begin
        server = Postgres.new
        Minitest.after_run { server.stop }
        urls = DATABASES.to_h { |name| ["#{name}_URL", server.url(name.downcase)] }
        run("bin/rails", "db:prepare", env: urls)
        environment.merge(urls)
      end
    end

    # Runs a command to its end; returns what it printed.
    def run(*words, dir: self.dir, env: {})
      output, status = Open3.capture2e(Command.environment(environment.merge(env)), *words, chdir: dir)
      raise "#{words.join(' ')}: #{status}\n#{output}" unless status.success?

      output
    end

    private

    def make(dir)
      Minitest.after_run { FileUtils.remove_entry(dir) }
      FileUtils.rm_rf(COMPILED) if Dir[File.join(COMPILED, "**/*")].size > MOST_COMPILED
      app = File.join(dir, "parcels")
      rails = 'load Gem.bin_path("railties", "rails")'
      run(RbConfig.ruby, "-e", rails, "new", app, "--quiet", *SKIPPED.map { |part| "--skip-#{part}" }, dir:)
      run("bin/rails", "runner", INSTALLERS, dir: app)
      FileUtils.cp_r(File.join(FOLDER, "app/."), app)
      # Writes the schema, which the tests of the app load.
      run("bin/rails", "db:prepare", dir: app, env: { "RAILS_ENV" => "development" })
      app
    end
  end
end
