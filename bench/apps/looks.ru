# frozen_string_literal: true

# What somebody may look at: /hello answers at once, /N is there until the server ends, /pause/S waits for S seconds,
# /burn/S keeps the loop for as long and /hold/S all of Ruby, as an extension does; /things/N/STATUS is a route.

require "fiddle"

text = { "content-type" => "text/plain" }.freeze
hold = Fiddle::Function.new(Fiddle.dlopen(nil)["usleep"], [Fiddle::TYPE_INT], Fiddle::TYPE_INT, need_gvl: true)
now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
burn = lambda do |seconds|
  stop = now.call + seconds
  nil while now.call < stop
end

run(lambda do |env|
  status = 200
  case env["PATH_INFO"]
  when "/hello" then nil
  when %r{\A/pause/(\d+)\z} then sleep(Integer(Regexp.last_match(1)))
  when %r{\A/burn/(\d+)\z} then burn.call(Integer(Regexp.last_match(1)))
  when %r{\A/hold/(\d+)\z} then hold.call(Integer(Regexp.last_match(1)) * 1_000_000)
  when %r{\A/things/(\d+)/(\d+)\z}
    env["abaca.route"] = "/things/#{Regexp.last_match(1)}/:id"
    status = Integer(Regexp.last_match(2))
  else sleep
  end
  [status, text.merge("content-length" => "12"), ["Hello World\n"]]
end)
