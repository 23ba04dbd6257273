# frozen_string_literal: true

# A Rails application in production, as small as one with pages can be: a list, a form, and a page that waits. Its
# database is that of DATABASE_URL. Whatever it would write to the log goes nowhere.
require "rails"
require "action_controller/railtie"
require "action_view/railtie"
require "active_record/railtie"

module Bench
  class Application < Rails::Application
    config.load_defaults "#{Rails::VERSION::MAJOR}.#{Rails::VERSION::MINOR}"
    config.root = __dir__
    config.eager_load = true
    config.enable_reloading = false # each request would look at all files of the app, and at whether others may load
    config.consider_all_requests_local = false
    config.hosts.clear
    config.secret_key_base = "no secret" * 8
    config.active_support.isolation_level = ENV.fetch("ISOLATION").to_sym
    config.logger = ActiveSupport::Logger.new(File::NULL, level: Logger::INFO)
    # The client that sends the form has not been given a token.
    config.action_controller.allow_forgery_protection = false
    config.active_record.dump_schema_after_migration = false
  end

  # Rails 8 waits for SQLite's lock in Ruby. Before, SQLite waits itself and keeps Ruby's lock, without which the thread
  # that has SQLite's cannot go on: nothing runs until the time is over, and the request fails.
  module WaitInRuby
    private

    def configure_connection
      super
      @raw_connection.busy_handler_timeout = Integer(@config.fetch(:timeout))
    end
  end

  ActiveSupport.on_load(:active_record_sqlite3adapter) { prepend WaitInRuby } if Rails::VERSION::MAJOR < 8

  class Parcel < ActiveRecord::Base
    self.table_name = "parcels"
    validates :recipient, presence: true
  end

  class ParcelsController < ActionController::Base
    layout "application"
    prepend_view_path Rails.root.join("app/views")

    def self.controller_path = "parcels"

    # The twenty newest.
    def index
      @parcels = Parcel.order(id: :desc).limit(20).to_a
    end

    def new
      @parcel = Parcel.new(weight: 1)
    end

    def create
      parcel = Parcel.create!(params.require(:parcel).permit(:recipient, :weight))
      redirect_to "/parcels?last=#{parcel.id}", status: :see_other
    end

    # What another service takes, after a query.
    def wait
      parcel = Parcel.find(1)
      sleep 0.05
      render plain: "#{parcel.recipient}\n"
    end
  end
end

Bench::Application.initialize!
Bench::Application.routes.draw do
  get "parcels", to: "bench/parcels#index"
  get "parcels/new", to: "bench/parcels#new"
  post "parcels", to: "bench/parcels#create"
  get "wait", to: "bench/parcels#wait"
end

run Bench::Application
