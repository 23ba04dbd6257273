# frozen_string_literal: true

# A Roda application: JSON, an upload, files, and streams.
require "roda"

class Parcels < Roda
  plugin :error_handler
  plugin :json
  plugin :public, root: __dir__
  plugin :streaming

  ALLOWED = Queue.new

  error { |error| "failed: #{error.class}" }

  route do |r|
    r.public

    r.on "parcels" do
      r.get(Integer) { |id| { "id" => id, "to" => r.params["to"] } }
      r.post do
        label = r.params.fetch("label")
        response.status = 201
        "#{r.params['to']} #{label[:filename]} #{label[:tempfile].size}"
      end
    end

    r.get("boom") { raise "secret of the parcels" }

    r.is "events" do
      r.get do
        response["content-type"] = "text/event-stream"
        stream { |out| 3.times { out << "data: #{ALLOWED.pop}\n\n" } }
      end
      r.post do
        ALLOWED << r.body.read
        response.status = 204
        ""
      end
    end
  end
end

run Parcels.freeze.app
