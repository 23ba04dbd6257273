# frozen_string_literal: true

# A Roda app.
#
#   bin/serve examples/roda/config.ru

require "roda"

class Router < Roda
  plugin :default_headers, "content-type" => "text/plain"

  route do |r|
    r.root { "Hello from Roda #{Roda::RodaVersion} on Abaca\n" }

    r.get("hello", String) { |name| "Hello, #{name}!\n" }

    r.post("sum") { "#{r.params.fetch('numbers', '').split(',').sum(&:to_i)}\n" }
  end
end

run Router.freeze.app
