# frozen_string_literal: true

# Answers with the number of bytes in the request's body, read by 64 KB into one buffer.
run(lambda do |env|
  input = env["rack.input"]
  buffer = String.new(capacity: 65_536)
  size = 0
  size += buffer.bytesize while input&.read(65_536, buffer)
  [200, { "content-type" => "text/plain" }, [size.to_s]]
end)
