# frozen_string_literal: true

# The app of every Ruby server in the benchmarks. BODY is the size of the answer in bytes.
size = Integer(ENV.fetch("BODY", "12"))
body = (size == 12 ? "Hello World\n" : "x" * size).freeze

run ->(_env) { [200, { "content-type" => "text/plain" }, [body]] }
