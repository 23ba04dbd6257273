# frozen_string_literal: true

# What goes wrong in the drill, by path, until the test says that it is over.
require "connection_pool"
require "net/http"

POOL = ConnectionPool.new(size: 2, timeout: 60) { Object.new }
LOCK = Mutex.new
KEPT = [] # rubocop:disable Style/MutableConstant -- it leaks

def over? = File.exist?("over")

def wait
  sleep 0.05 until over?
end

def compute
  100_000.times { Math.sqrt(2) } until over?
end

def collect
  GC.start until over?
end

# Half a megabyte, each byte of it touched.
def leak = KEPT << ("x" * 500_000)

def fault(path, query)
  case path
  when "/pool" then POOL.with { wait }
  when "/upstream" then Net::HTTP.get(URI("http://127.0.0.1:#{query}/"))
  when "/report" then compute
  when "/lock" then LOCK.synchronize { wait }
  when "/leak" then leak
  when "/dns" then Addrinfo.getaddrinfo("slow.test", 80)
  when "/gc" then collect
  when "/wait" then wait
  end
end

run(lambda do |env|
  fault(env["PATH_INFO"], env["QUERY_STRING"])
  [200, { "content-type" => "text/plain" }, ["done"]]
end)
