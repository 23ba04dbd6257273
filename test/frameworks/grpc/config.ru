# frozen_string_literal: true

# A service of gRPC as a bare Rack app: messages are strings, each behind a byte for "not compressed" and its length.
module Service
  HEAD = { "content-type" => "application/grpc", "abaca.trailers" => { "grpc-status" => "0" } }.freeze
  # A status without a message: it stands in the head, and there is no trailer section.
  UNKNOWN = { "content-type" => "application/grpc", "grpc-status" => "12", "grpc-message" => "no such method" }.freeze

  module_function

  def call(env)
    input = env["rack.input"]
    case env["PATH_INFO"].delete_prefix("/test.Service/")
    when "Shout" then answer([frame(read(input).upcase)])
    when "Count" then answer(Array.new(Integer(read(input))) { |nth| frame(nth.to_s) })
    when "Join" then answer([frame(all(input).to_a.join(","))])
    when "Echo" then answer(all(input).lazy.map { |message| frame(message) })
    when "Sleep" then sleep 2
    else [200, UNKNOWN.dup, []]
    end
  end

  # messages: in their frames, whatever has `each`.
  def answer(messages) = [200, HEAD.dup, messages]
  def all(input) = Enumerator.produce { read(input) || raise(StopIteration) }
  def frame(message) = [0, message.bytesize].pack("CN") + message

  # The next message; nil at the end.
  def read(input)
    head = input.read(5) or return
    length = head.unpack1("xN")
    length.zero? ? "" : input.read(length)
  end
end

run Service
