# frozen_string_literal: true

# A Sinatra application: parameters, an upload, files, and streams.
require "sinatra/base"

class Parcels < Sinatra::Base
  set :environment, :production
  set :host_authorization, { permitted_hosts: [] }
  set :root, __dir__
  set :allowed, Queue.new
  mime_type :events, "text/event-stream"

  get("/parcels/:id") { "parcel #{params['id']} for #{params['to']}" }

  post "/parcels" do
    label = params.fetch("label")
    status 201
    "#{params['to']} #{label['filename']} #{label['tempfile'].size}"
  end

  get("/file") { send_file __FILE__, type: "text/plain" }
  get("/boom") { raise "secret of the parcels" }

  # Each event leaves when POST /events allows it.
  get "/events" do
    content_type :events
    stream do |out|
      3.times { out << "data: #{settings.allowed.pop}\n\n" }
    end
  end

  post "/events" do
    settings.allowed << request.body.read
    204
  end

  # A stream that others write to while its request waits.
  get "/kept" do
    content_type :events
    stream(:keep_open) do |out|
      out << "data: open\n\n"
      out << "data: #{settings.allowed.pop}\n\n"
      out.close
    end
  end
end

run Parcels
