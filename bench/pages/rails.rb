# frozen_string_literal: true

require_relative "apps"
require_relative "../rails/rails_gems"

module Bench
  module Pages
    # apps/pages_rails: a Rails application in the size of a real one, on SQLite.
    class Rails < App
      PROBES = { "page" => [50, 500], "burn" => [1, 10] }.freeze
      FOLDER = File.join(DIR, "apps", "pages_rails")
      DATABASE = File.join(TMP, "pages.db")
      POOL = 320 # connections to the database: enough for all clients
      ON_FIBERS = %w[abaca falcon].freeze

      def path = File.join(FOLDER, "config.ru")
      def light = "/up"
      def title = "Rails #{@gems&.version}"

      def prepare
        return if @gems

        gems = RailsGems.of(@ruby)
        gems.install
        @variables = gems.production.merge("DATABASE_URL" => "sqlite3:#{DATABASE}?pool=#{POOL}&timeout=5000")
        fill
        @gems = gems
      end

      # What it isolates, a fiber or a thread, is what the server runs its requests on.
      def env(entry)
        on_fibers = ON_FIBERS.include?(entry.server.name.split.first) && entry.options.dig(:settings, :mode) != :thread
        @variables.merge("ISOLATION" => on_fibers ? "fiber" : "thread")
      end

      private

      def fill
        FileUtils.rm_f(Dir["#{DATABASE}*"])
        command = @ruby.command(File.join(FOLDER, "schema.rb"))
        text, status = Open3.capture2e(Child::CLEAN.merge(@variables), *command, chdir: ROOT)
        raise Failed, (text[/^.*error.*$/i] || text.lines.last.to_s).strip unless status.success?
      end
    end
  end
end
