# frozen_string_literal: true

# hello, and under /gc the number of Ruby objects that this process has allocated since its start.
body = "Hello World\n"

run(lambda do |env|
  text = env["PATH_INFO"] == "/gc" ? GC.stat(:total_allocated_objects).to_s : body
  [200, { "content-type" => "text/plain" }, [text]]
end)
