# frozen_string_literal: true

# Calls the service of config.ru on a port in each way that gRPC has, and prints what came of it as JSON.
require "grpc"
require "json"

SAME = ->(message) { message }
stub = GRPC::ClientStub.new("127.0.0.1:#{ARGV.fetch(0)}", :this_channel_is_insecure)
call = ->(kind, name, request, **options) { stub.send(kind, "/test.Service/#{name}", request, SAME, SAME, **options) }

failure = lambda do |name, **options|
  call.call(:request_response, name, "", **options)
rescue GRPC::BadStatus => e
  [e.class.name, e.details]
end

# What is sent next depends on what has come.
echoes = Queue.new
chain = Enumerator.new do |requests|
  requests << "a"
  2.times { requests << "#{echoes.pop}+" }
end

puts JSON.generate(
  unary: call.call(:request_response, "Shout", "hello"),
  large: call.call(:request_response, "Shout", "x" * 300_000).bytesize,
  server_stream: call.call(:server_streamer, "Count", "3").to_a,
  client_stream: call.call(:client_streamer, "Join", %w[a b c]),
  both: call.call(:bidi_streamer, "Echo", chain).map { |message| message.tap { echoes << message } },
  unknown: failure.call("Nothing"),
  late: failure.call("Sleep", deadline: Time.now + 0.5).first,
  at_once: Array.new(20) { |nth| Thread.new { call.call(:request_response, "Shout", "n#{nth}") } }.map(&:value)
)
