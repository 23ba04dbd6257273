# frozen_string_literal: true

# Requests that wait: /sleep sleeps for 100 ms; /upstream asks a slow server (UPSTREAM is its port) on
# a new connection, as an app does that calls another service.
require "net/http"

upstream = Integer(ENV.fetch("UPSTREAM"))

run(lambda do |env|
  if env["PATH_INFO"] == "/upstream"
    body = Net::HTTP.get("127.0.0.1", "/slept", upstream)
  else
    sleep(0.1)
    body = "/slept"
  end
  [200, { "content-type" => "text/plain" }, [body]]
end)
