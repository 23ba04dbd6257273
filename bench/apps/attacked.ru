# frozen_string_literal: true

# What attacks on HTTP/2 ask for: little, after a wait, or 10 MB.
large = ("x" * 10_000_000).freeze

run lambda { |env|
  next [200, { "content-type" => "text/plain" }, [large]] if env["PATH_INFO"] == "/large"

  sleep 0.005
  [200, { "content-type" => "text/plain" }, ["Hello World\n"]]
}
