# frozen_string_literal: true

module Parcels
  class Routes < Hanami::Routes
    allowed = Queue.new
    streamed = Enumerator.new { |body| 3.times { |nth| body << "#{allowed.pop} #{nth}\n" } }

    get "/parcels/:id", to: "show"
    post "/parcels", to: "create"
    get "/file", to: "file"
    get "/boom", to: "boom"
    get "/events", to: ->(_env) { [200, { "content-type" => "text/plain" }, streamed] }
    post "/events", to: ->(env) { [204, {}, [].tap { allowed << env["rack.input"].read }] }
  end
end
