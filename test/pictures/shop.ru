# frozen_string_literal: true

# The app of bin/pictures: a shop whose database answers slowly, and whose report computes.
require "socket"
require "abaca"

DATABASE = Integer(ENV.fetch("DATABASE"))
# So many may talk to the database at once.
POOL = SizedQueue.new(6)

# One query: the database answers after so many milliseconds.
def query(time)
  Abaca.waiting(:pool) { POOL << true }
  socket = TCPSocket.new("127.0.0.1", DATABASE)
  socket.puts(time)
  socket.gets
ensure
  socket&.close
  POOL.pop
end

def sum = 300_000.times.sum { |i| Math.sqrt(i) }

ROUTES = {
  "/items/:id" => ->(_) { query(rand(20..120)) },
  "/orders" => ->(_) { 3.times { query(rand(10..60)) } },
  "/search" => ->(_) { sleep(rand(0.05..0.3)) },
  "/reports/:id" => ->(_) { 3.times { sum } },
  "/export" => ->(_) { query(4_000) },
  "/broken" => ->(_) { query(5) && raise(IOError, "no paper") }
}.freeze

run(lambda do |env|
  route = ROUTES.keys.find { |one| env["PATH_INFO"].match?(/\A#{one.sub(':id', '\d+')}\z/) }
  env["abaca.route"] = route
  ROUTES.fetch(route).call(env)
  [200, { "content-type" => "text/plain" }, ["done\n"]]
end)
