# frozen_string_literal: true

# What bin/soak asks: a little of everything that a server has to do, and of all that goes wrong.
require "digest/sha2" # Digest::SHA256 alone is loaded when it is first used, perhaps by two threads at once
require "json"
require "objspace"
require "socket" # or the first socket that an app takes would load it
require "tempfile"
require "time"
require_relative "collections"

Soak::Collections.begin if ENV["SOAK_STRESS"]

HEAP = Array.new(Integer(ENV.fetch("SOAK_HEAP", "0"))) { [] }
PIECE = "x" * 1000
LARGE = "y" * 1_000_000
# One without a name, so that nothing is left of it.
LONG_FILE = Tempfile.create("abaca-soak").tap do |file|
  File.unlink(file.path)
  file.write("f" * 300_000)
  file.flush
end
TEXT = { "content-type" => "text/plain" }.freeze
GARBAGE = Queue.new

# Counts what has to stay as it is. Fibers are all that live, but for those that wait in a pool for a job: a pool never
# has more than were busy at once, and it keeps them for a minute or two. A client may have 20 streams at once.
def figures
  3.times { GC.start }
  idle = ObjectSpace.each_object(Abaca::FiberPool).sum { |pool| pool.stats[:idle] }
  { fibers: ObjectSpace.each_object(Fiber).count(&:alive?) - idle, ruby_threads: Thread.list.size,
    slots: GC.stat(:heap_live_slots), ensured: ENSURED }
end

# A body that comes in pieces, with pauses.
class Pieces
  def initialize(count, pause)
    (@count = count
     @pause = pause)
  end

  def each
    @count.times do
      sleep @pause
      yield PIECE
    end
  end
end

# Fields that are not there at once.
class SlowHeaders
  def each(&block) = to_h.each(&block)
  def to_h = sleep(0.001) && { "link" => "</a.css>; rel=preload" }
end

def sleep_and_count(seconds)
  ENSURED[:entered] += 1
  sleep seconds
ensure
  ENSURED[:left] += 1
end

# Computes; true.
def burn(seconds)
  stop = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
  PIECE.sum while Process.clock_gettime(Process::CLOCK_MONOTONIC) < stop
  true
end

# Keeps a descriptor and memory of each request, so that one can see that it is noticed.
def leak
  GARBAGE << File.open(File::NULL) << ("z" * 100_000)
end

ENSURED = Hash.new(0)
ROUTES = {
  "/hello" => ->(_env) { [200, TEXT, ["Hello World\n"]] },
  "/sleep" => ->(_env) { sleep_and_count(0.05) && [200, TEXT, ["slept"]] },
  "/long" => ->(_env) { sleep_and_count(2) && [200, TEXT, ["slept"]] },
  "/burn" => ->(_env) { burn(0.1) && [200, TEXT, ["burnt"]] },
  "/digest" => ->(env) { [200, TEXT, [Digest::SHA256.hexdigest(env["rack.input"].read)]] },
  "/pieces" => ->(_env) { [200, TEXT, Pieces.new(20, 0.002)] },
  "/stream" => ->(_env) { [200, TEXT, ->(stream) { 20.times { stream << PIECE } and stream.close }] },
  "/large" => ->(_env) { [200, TEXT.merge("content-length" => LARGE.bytesize.to_s), [LARGE]] },
  "/file" => ->(_env) { [200, TEXT, File.open(__FILE__)] },
  "/long_file" => ->(_env) { [200, TEXT, File.open("/proc/self/fd/#{LONG_FILE.fileno}")] },
  "/boom" => ->(_env) { raise "on purpose" },
  "/late" => lambda do |env|
    env["abaca.client"].request_timeout = 0.2
    sleep_and_count(1) && [200, TEXT, ["late"]]
  end,
  "/stubborn" => lambda do |env|
    begin
      env["abaca.client"].request_timeout = 0.1 # raises if that is over already
      sleep_and_count(0.5)
    rescue Exception # rubocop:disable Lint/RescueException -- an app that goes on all the same
      nil
    end
    [200, TEXT, ["all the same"]]
  end,
  "/edge" => lambda do |env|
    env["abaca.client"].on_gone { Thread.pass }
    env["abaca.deadline"].on_cancel { Thread.pass }
    env["abaca.client"].request_timeout = 0.02
    sleep_and_count(0.019 + (rand * 0.002)) && [200, TEXT, ["in time"]]
  end,
  "/hints" => lambda do |env|
    3.times { env["abaca.client"].inform(103, SlowHeaders.new) }
    [200, TEXT, ["hinted"]]
  end,
  "/fork" => lambda do |_env|
    child = Soak::Collections.aside { fork { exit!(7) } }
    [200, TEXT, [Process.wait2(child).last.exitstatus.to_s]]
  end,
  "/thread" => ->(_env) { [200, TEXT, [Thread.new { sleep(0.01) && "joined" }.value]] },
  "/hijack" => lambda do |env|
    io = env["rack.hijack"].call
    io.write("HTTP/1.1 200 OK\r\nDate: #{Time.now.httpdate}\r\nConnection: close\r\n\r\ntaken")
    io.close
    [200, {}, []]
  end,
  "/converse" => lambda do |env|
    io = env["rack.hijack"].call
    begin
      loop { io.write(io.readpartial(5000)) }
    rescue EOFError, SystemCallError
      nil # the client has gone
    ensure
      io.close
    end
    [200, {}, []]
  end,
  "/figures" => ->(_env) { [200, TEXT, [JSON.generate(figures)]] }
}.freeze

run lambda { |env|
  leak if ENV["SOAK_LEAK"]
  route = ROUTES[env["PATH_INFO"]]
  route ? route.call(env) : [404, TEXT, ["nothing here"]]
}
