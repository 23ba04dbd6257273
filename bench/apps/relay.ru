# frozen_string_literal: true

# A gateway: asks an upstream that streams (UPSTREAM is its port), and hands on each piece as it comes.
require "net/http"

upstream = Integer(ENV.fetch("UPSTREAM"))

# Rack's "Enumerable Body" and nothing else.
relay = Class.new do
  define_method(:initialize) { |path| @path = path }

  define_method(:each) do |&block|
    Net::HTTP.start("127.0.0.1", upstream) do |http|
      http.request_get(@path) { |response| response.read_body(&block) }
    end
  end
end

run(lambda do |env|
  path = env["PATH_INFO"]
  next [200, { "content-type" => "text/plain" }, ["ready"]] if path == "/ready"

  [200, { "content-type" => "text/event-stream", "cache-control" => "no-cache" }, relay.new(path)]
end)
