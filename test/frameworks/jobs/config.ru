# frozen_string_literal: true

# A Rails application that enqueues jobs, which Solid Queue runs in a database of SQLite. FOLDER has the database and
# what the jobs write.
require "active_record/railtie"
require "active_job/railtie"
require "action_controller/railtie"
require "solid_queue"

module Jobs
  FOLDER = ENV.fetch("FOLDER")

  class Application < Rails::Application
    config.load_defaults "#{Rails::VERSION::MAJOR}.#{Rails::VERSION::MINOR}"
    config.root = __dir__
    config.paths["log"] = File.join(FOLDER, "log")
    config.api_only = true
    config.eager_load = true
    config.hosts.clear
    config.secret_key_base = "no secret" * 8
    config.logger = ActiveSupport::Logger.new($stderr)
    config.log_level = :fatal
    config.active_job.queue_adapter = :solid_queue
    config.solid_queue.logger = config.logger
    config.solid_queue.shutdown_timeout = 2
    config.solid_queue.silence_polling = true
  end

  # Notes which process has run it.
  class NoteJob < ActiveJob::Base
    def perform(text) = File.write(File.join(FOLDER, "notes"), "#{text} #{Process.pid}\n", mode: "a")
  end

  class JobsController < ActionController::API
    def create
      NoteJob.perform_later(params.fetch(:text))
      render plain: "enqueued"
    end
  end
end

ENV["DATABASE_URL"] ||= "sqlite3:#{File.join(Jobs::FOLDER, 'jobs.sqlite3')}?timeout=5000"
Rails.application.initialize!
Rails.application.routes.draw { get "/jobs/:text", to: "jobs/jobs#create" }

unless SolidQueue::Process.table_exists?
  load File.join(Gem.loaded_specs.fetch("solid_queue").full_gem_path,
                 "lib/generators/solid_queue/install/templates/db/queue_schema.rb")
end

run Rails.application
