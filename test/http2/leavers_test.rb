# frozen_string_literal: true

# also: modes sanitized

require "test_helper"
require "support/http2_client"
require "support/process_case"

# A client of HTTP/2 whose connection ends behind its requests, next to a streamed body. A collection holds up the loop
# while it builds a request's env. Meanwhile the standby sends the body's output, and ends the client's session: the
# head that the loop reads must live on.
class Http2LeaversTest < Minitest::Test
  include ProcessCase

  # The body computes until the client's frames are here, and puts off what it writes in a row. From then on, until the
  # app is called, each allocation collects.
  APP = <<~RUBY
    PIECE = "x" * 1000
    CUES = Queue.new
    TEXT = { "content-type" => "text/plain" }.freeze
    now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
    pieces = lambda do |stream|
      while CUES.pop
        stop = now.call + 0.05
        nil while now.call < stop
        4.times { stream << PIECE }
        GC.stress = true
      end
    ensure
      stream.close
    end
    run lambda { |env|
      GC.stress = false
      case env["PATH_INFO"]
      when "/stream" then [200, TEXT, pieces]
      when "/cue" then CUES << true and [200, TEXT, []]
      else [200, TEXT, ["hello"]]
      end
    }
  RUBY
  WIDE = "preface settings 0 - 0001 00000000 0004 7fffffff window_update 0 - 7fff0000"
  REQUESTS = Array.new(20) { |nth| "headers #{(2 * nth) + 1} es,eh 8286 0402'/a' 0106'a.test'" }.join(" ")
  WRONG = "window_update 0 - 00000000"
  ROUNDS = 4

  %w[fiber hybrid].each do |mode|
    define_method(:"test_heads_outlive_their_sessions_in_mode_#{mode}") { assert_survives(mode) }
  end

  private

  def assert_survives(mode)
    server = start(mode)
    stream = connect(server.port).write(get("/stream"))
    cues = connect(server.port)
    ROUNDS.times do
      client = Http2Client.new(server.port, before: WIDE)
      client.read_until { client.of("settings").any? }
      cues.write(get("/cue"))
      client.send_words("#{REQUESTS} #{WRONG}")
      client.read_until { client.ended? }
      client.close
      assert_equal 200, cues.read.status
      stream.read_some
    end
    assert_equal 200, cues.call(get("/")).status
  end

  def start(mode)
    File.write(File.join(@directory, "config.ru"), APP)
    File.write(File.join(@directory, "settings.rb"), <<~RUBY)
      bind "tcp://127.0.0.1:0?h2c=true"
      mode :#{mode}
      stall_after 5000
    RUBY
    start_abaca("-C", "settings.rb", "config.ru")
  end

  def get(path) = "GET #{path} HTTP/1.1\r\nHost: a.test\r\n\r\n"
end
