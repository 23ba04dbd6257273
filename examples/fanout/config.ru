# frozen_string_literal: true

# Why fibers: a page that needs three slow services asks them all at once with plain Net::HTTP, and is done when the
# slowest one is. The services are paths of the same server.
#
#   bin/serve examples/fanout/config.ru

require "json"
require "net/http"

require_relative "page"

# The three services, and how many milliseconds each takes to answer.
SERVICES = { "accounts" => 300, "orders" => 200, "prices" => 250 }.freeze

now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }

# One call of one service: when it began and ended, in milliseconds since the start.
call = lambda do |port, name, milliseconds, start|
  from = now.call
  answer = Net::HTTP.get(URI("http://127.0.0.1:#{port}/upstream?ms=#{milliseconds}"))
  { name:, from: ((from - start) * 1000).round, to: ((now.call - start) * 1000).round, answer: answer.strip }
end

# All calls at once, each on a fiber; the queue parks this request until the last one is back.
fanout = lambda do |port|
  start = now.call
  answers = Thread::Queue.new
  SERVICES.each do |name, milliseconds|
    Fiber.schedule do
      answers << call.call(port, name, milliseconds, start)
    rescue StandardError => e
      answers << { name:, from: 0, to: 0, answer: "#{e.class}: #{e.message}" }
    end
  end
  calls = SERVICES.map { answers.pop }.sort_by { |entry| SERVICES.keys.index(entry[:name]) }
  { total: ((now.call - start) * 1000).round, sum: calls.sum { |entry| entry[:to] - entry[:from] }, calls: }
end

run(lambda do |env|
  case env["PATH_INFO"]
  when "/"
    [200, { "content-type" => "text/html; charset=utf-8" }, [Fanout::PAGE]]
  when "/fanout.json"
    [200, { "content-type" => "application/json" }, [JSON.generate(fanout.call(env["SERVER_PORT"]))]]
  when "/upstream"
    milliseconds = env["QUERY_STRING"][/\Ams=(\d{1,4})\z/, 1].to_i
    sleep(milliseconds / 1000.0)
    [200, { "content-type" => "text/plain" }, ["slept #{milliseconds} ms\n"]]
  else
    [404, { "content-type" => "text/plain" }, ["There is nothing here; try /\n"]]
  end
end)
