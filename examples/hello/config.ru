# frozen_string_literal: true

# The first page of bin/serve: shows which server answers, and how many requests it has had.
#
#   bin/serve examples/hello/config.ru

require "rack"

require_relative "page"

requests = 0

run(lambda do |env|
  requests += 1
  case env["PATH_INFO"]
  when "/"
    [200, { "content-type" => "text/html; charset=utf-8" }, [Hello::Page.html(env, requests)]]
  when "/plain"
    [200, { "content-type" => "text/plain" }, ["Hello, world!\n"]]
  else
    [404, { "content-type" => "text/plain" }, ["There is nothing here; try /\n"]]
  end
end)
