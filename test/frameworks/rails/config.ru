# frozen_string_literal: true

# A Rails API application in one file: JSON, uploads, files, server-sent events, a WebSocket, and requests
# that wait.
require "action_controller/railtie"
require "action_cable/engine"
require "digest"

module Parcels
  class Application < Rails::Application
    config.load_defaults "#{Rails::VERSION::MAJOR}.#{Rails::VERSION::MINOR}"
    config.root = __dir__
    config.api_only = true
    config.eager_load = true
    config.consider_all_requests_local = false
    config.hosts.clear
    config.secret_key_base = "no secret" * 8
    # The server's Railtie sets :fiber, unless this is said.
    config.active_support.isolation_level = ENV["ISOLATION"].to_sym if ENV["ISOLATION"]
    config.action_cable.cable = { "adapter" => "async" }
    config.action_cable.connection_class = -> { Connection }
    config.action_cable.disable_request_forgery_protection = true
    config.logger = ActiveSupport::Logger.new($stderr, level: Logger::FATAL)
  end

  # Who asks, known everywhere in the request.
  class Current < ActiveSupport::CurrentAttributes
    attribute :visitor
  end

  # Sets the visitor outside of the controllers, as a gem for sign-in does.
  class SignIn
    def initialize(app) = @app = app

    def call(env)
      Current.visitor = env["HTTP_X_VISITOR"]
      @app.call(env)
    end
  end
  Application.config.middleware.use SignIn

  class Connection < ActionCable::Connection::Base
  end

  # What one subscriber says, all of them hear.
  class NewsChannel < ActionCable::Channel::Base
    def subscribed = stream_from("news")

    def tell(data) = ActionCable.server.broadcast("news", { "text" => data.fetch("text").upcase })
  end

  class ParcelsController < ActionController::API
    def index
      parcels = [{ id: 1, to: "Ada" }, { id: 2, to: "Grace" }]
      render json: parcels if stale?(etag: parcels, template: false)
    end

    def create
      label = params.require(:label)
      render status: :created, json: { to: params[:to], name: label.original_filename, type: label.content_type,
                                       size: label.size, digest: Digest::SHA256.hexdigest(label.read) }
    end

    def file
      send_file __FILE__, type: "text/plain", disposition: "inline"
    end

    def isolation
      render plain: ActiveSupport::IsolatedExecutionState.isolation_level.to_s
    end

    def boom
      raise Object.const_get(params.fetch(:kind, "RuntimeError")), "secret of the parcels"
    end

    def late
      request.env["abaca.client"].request_timeout = 0.05
      sleep
    end
  end

  # Requests that meet in the app: each knows its own name after the other has set its own.
  class MeetingController < ActionController::API
    ARRIVED = Queue.new
    LEAVING = Queue.new

    def show
      Current.visitor = params[:name]
      ARRIVED << true
      LEAVING.pop
      render plain: Current.visitor
    end

    def release
      2.times { ARRIVED.pop }
      2.times { LEAVING << true }
      head :no_content
    end
  end

  # The same for streams, which know who asks although they run on threads of their own.
  class StreamsController < ActionController::API
    include ActionController::Live

    def show
      response.headers["Content-Type"] = "text/plain"
      MeetingController::ARRIVED << true
      MeetingController::LEAVING.pop
      response.stream.write(Current.visitor.to_s)
    ensure
      response.stream.close
    end
  end

  # Each event leaves when POST /events allows it, unless it is forgotten before; closing is noticed.
  class EventsController < ActionController::API
    include ActionController::Live

    ALLOWED = Queue.new
    ENDED = Queue.new

    def index
      response.headers["Content-Type"] = "text/event-stream"
      response.headers["Last-Modified"] = Time.now.httpdate # so that Rack::ETag lets it pass
      events = SSE.new(response.stream, event: "parcel")
      (1..).each do |number|
        word = ALLOWED.pop
        break if word == "end"

        events.write({ number: number })
      end
    rescue ActionController::Live::ClientDisconnected
      nil
    ensure
      events&.close
      ENDED << true
    end

    def create
      word = params.fetch(:word, "next")
      word == "forget" ? ALLOWED.clear : ALLOWED << word
      head :no_content
    end

    def ended
      render plain: ENDED.pop.to_s
    end
  end
end

Parcels::Application.initialize!
Parcels::Application.routes.draw do
  scope module: :parcels do
    resources :parcels, only: %i[index create]
    get "file", to: "parcels#file"
    get "boom", to: "parcels#boom"
    get "late", to: "parcels#late"
    get "isolation", to: "parcels#isolation"
    get "meeting/:name", to: "meeting#show"
    post "meeting", to: "meeting#release"
    get "stream", to: "streams#show"
    get "events", to: "events#index"
    post "events", to: "events#create"
    get "events/ended", to: "events#ended"
  end
  mount ActionCable.server => "/cable"
end

run Parcels::Application
