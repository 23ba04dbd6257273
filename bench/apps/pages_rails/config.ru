# frozen_string_literal: true

# A Rails application in production, in the size of a real one: ballast.rb has what an application of years has in
# memory. /page/N has a layout, partials and 50 records in N rows; /burn/N computes; /up is Rails' health check. Its
# database is that of DATABASE_URL. Whatever it would write to the log goes nowhere.
require "rails"
require "action_controller/railtie"
require "action_view/railtie"
require "active_record/railtie"
require_relative "ballast"

module Bench
  class Application < Rails::Application
    config.load_defaults "#{Rails::VERSION::MAJOR}.#{Rails::VERSION::MINOR}"
    config.root = __dir__
    config.eager_load = true
    config.enable_reloading = false # each request would look at all files of the app
    config.consider_all_requests_local = false
    config.hosts.clear
    config.secret_key_base = "no secret" * 8
    config.active_support.isolation_level = ENV.fetch("ISOLATION").to_sym
    config.logger = ActiveSupport::Logger.new(File::NULL, level: Logger::INFO)
  end

  class Author < ActiveRecord::Base
    self.table_name = "authors"
  end

  class Post < ActiveRecord::Base
    self.table_name = "posts"
    belongs_to :author, class_name: "Bench::Author"
  end

  class PostsController < ActionController::Base
    RECORDS = 50

    layout "application"
    prepend_view_path Rails.root.join("app/views")

    def self.controller_path = "posts"

    # Each record has a row; the rows that are left have the first ones again.
    def index
      posts = Post.includes(:author).order(id: :desc).limit(RECORDS).to_a
      @rows = Array.new(Integer(params[:rows])) { |nth| posts[nth % posts.size] }
    end

    def burn
      sum = 0
      (Integer(params[:count]) * 10_000).times { |nth| sum += nth % 7 }
      render plain: "#{sum}\n"
    end
  end
end

Bench::Application.initialize!
Bench::Application.routes.draw do
  get "page/:rows", to: "bench/posts#index"
  get "burn/:count", to: "bench/posts#burn"
  get "up", to: "rails/health#show"
  Bench::Ballast.routes(self)
end
Bench::Ballast.load

run Bench::Application
