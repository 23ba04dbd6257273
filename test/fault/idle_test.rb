# frozen_string_literal: true

require "test_helper"
require "support/process_case"

# Whatever a client leaves unfinished, waiting for the rest costs no processor time.
class FaultIdleTest < Minitest::Test
  include ProcessCase

  RACKUP = <<~RUBY
    run(lambda do |env|
      sleep 60 if env["PATH_INFO"] == "/sleep"
      input = env["rack.input"]
      body = env["PATH_INFO"] == "/lazy" ? "" : input.read.to_s
      content = env["PATH_INFO"] == "/large" ? "x" * 20_000_000 : body.bytesize.to_s
      [200, { "content-type" => "text/plain" }, [content]]
    end)
  RUBY

  PLAIN = <<~RUBY.freeze
    require #{File.expand_path('../support/plain_scheduler', __dir__).inspect}
    fiber_scheduler PlainScheduler
  RUBY

  GET = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
  CHUNKED = "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"
  BODY = "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\n"

  PARTIAL = {
    "nothing" => "",
    "part of a request line" => "GET /",
    "part of a field line" => "GET / HTTP/1.1\r\nHost: a.te",
    "a head without its last line end" => "GET / HTTP/1.1\r\nHost: a.test\r\n\r",
    "no body" => BODY,
    "part of a body" => "#{BODY}hel",
    "a body that is expected" => BODY.sub("Host", "Expect: 100-continue\r\nHost"),
    "part of a chunk size" => "#{CHUNKED}1",
    "part of a chunk extension" => "#{CHUNKED}1;ext=\"va",
    "part of a chunk" => "#{CHUNKED}5\r\nhel",
    "a chunk without its line end" => "#{CHUNKED}5\r\nhello\r",
    "part of a trailer" => "#{CHUNKED}0\r\nX-T",
    "a trailer section without its end" => "#{CHUNKED}0\r\nX-T: v\r\n",
    "a body that nobody reads" => "#{BODY.sub('POST /', 'POST /lazy')}hel",
    "a finished request" => GET,
    "a request and part of the next" => "#{GET}GET /",
    "a request whose app waits" => GET.sub("/", "/sleep"),
    "one behind it" => GET.sub("/", "/sleep") + GET,
    "an error" => "BAD\r\n\r\n",
    "a response that is not read" => GET.sub("/", "/large")
  }.freeze

  SECONDS = 2
  MOST = 0.010

  { "fibers" => "", "a_guest" => PLAIN }.each do |mode, config|
    # All of them wait at once, and each half-closed as well: a loop that spins for any one shows.
    define_method("test_waiting_costs_no_processor_time_with_#{mode}") do
      command = run_abaca(RACKUP, config: config)
      PARTIAL.each_value do |bytes|
        connect(command.port).write(bytes)
        connect(command.port).write(bytes).half_close
      end
      settle(command)
      before = processor_time(command)
      nothing_for(SECONDS)
      spent = processor_time(command) - before
      assert_operator spent, :<, MOST, "#{2 * PARTIAL.size} connections that wait for #{SECONDS} s"
    end
  end

  private

  # Waits until what was sent is dealt with: whoever came behind it is answered, and nothing is done any more for
  # half a second. What never rests is left to be measured.
  def settle(command)
    connect(command.port).call(GET)
    10.times do
      before = processor_time(command)
      nothing_for(0.5)
      break if processor_time(command) - before < MOST / 4
    end
  end

  # Seconds, from the scheduler's own count in nanoseconds.
  def processor_time(command)
    Dir["/proc/#{command.pid}/task/*/schedstat"].sum { |path| Integer(File.read(path).split.first) } / 1e9
  end
end
