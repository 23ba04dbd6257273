# frozen_string_literal: true

# Requests of every kind that a mode has to bear: /hello answers at once, /burn/N counts to N, /N waits for WAIT
# seconds and answers with its own path, /leave waits for 3 s and notes when its ensure has run, /left tells it.

wait = Float(ENV.fetch("WAIT", "0.1"))
text = { "content-type" => "text/plain" }.freeze
left = Queue.new

# The work is the same however long it takes.
burn = lambda do |count|
  nth = 0
  nth += 1 while nth < count
end

leave = lambda do
  sleep 3
ensure
  left << Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

run(lambda do |env|
  path = env["PATH_INFO"]
  body =
    case path
    when "/hello", "/livez" then "Hello World\n"
    when %r{\A/burn/(\d+)\z} then burn.call(Integer(Regexp.last_match(1))) || "burnt by #{env['abaca.mode']}"
    when "/leave" then leave.call && "stayed"
    when "/left" then Array.new(left.size) { left.pop }.join(" ")
    else sleep(wait) && path
    end
  [200, text.merge("content-length" => body.bytesize.to_s), [body]]
end)
