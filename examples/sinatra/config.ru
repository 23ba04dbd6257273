# frozen_string_literal: true

# A Sinatra app.
#
#   bin/serve examples/sinatra/config.ru

require "sinatra/base"

class Greeter < Sinatra::Base
  set :host_authorization, { permitted_hosts: [] }

  get "/" do
    content_type "text/plain"
    "Hello from Sinatra #{Sinatra::VERSION} on Abaca\n"
  end

  get "/hello/:name" do
    content_type "text/plain"
    "Hello, #{params['name']}!\n"
  end

  # A streamed response: each write is sent at once.
  get "/count" do
    content_type "text/plain"
    stream do |out|
      1.upto(3) do |number|
        out << "#{number}\n"
        sleep 0.05
      end
    end
  end

  post "/echo" do
    content_type "text/plain"
    request.body.read
  end
end

run Greeter
