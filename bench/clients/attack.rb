# frozen_string_literal: true

# Plays one attack on HTTP/2 again and again, each time on a new connection, as soon as the server has ended the last
# one: ruby attack.rb PORT NAME SECONDS. Prints the ends that it came to, as JSON.
$LOAD_PATH.unshift(File.expand_path("../../test", __dir__))
require "json"
require "support/http2_attacks"

port, name, seconds = ARGV
attack = Http2Attacks::ALL.fetch(name.to_sym)
deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + Float(seconds)
left = -> { deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC) }
ends = Hash.new(0)

while left.call.positive?
  begin
    client = Http2Client.new(Integer(port), before: attack.before)
    attack.play.call(client)
    client.read_until(within: [left.call, 0.01].max) { false }
    ends[client.goaway || "closed"] += 1
  rescue Wire::Late
    # Those whose streams end one by one keep their connection.
    ends[client.frames.any? { |frame| frame.is?("rst_stream") } ? "streams reset" : "goes on"] += 1
  rescue SystemCallError
    ends["closed"] += 1
  ensure
    client&.close
  end
end
puts JSON.generate(ends)
