# frozen_string_literal: true

# Each request asks a slow upstream (UPSTREAM is its port) on a new connection, as an app does that
# calls another service, and hands on what it says.
require "net/http"

upstream = Integer(ENV.fetch("UPSTREAM"))

run(lambda do |env|
  body = Net::HTTP.get("127.0.0.1", env["PATH_INFO"], upstream)
  [200, { "content-type" => "text/plain" }, [body]]
end)
