# frozen_string_literal: true

# Requests that need a database: DRIVER and LIBRARY say how, PLACE is where, in JSON. /page adds to one of a thousand
# rows and reads ten; /hold has a connection for 50 ms, in which the database is slow. SQLite has no slow statement and
# one writer at a time: there /hold waits for 10 ms with the lock.
require "json"
require_relative "../databases/libraries"

driver = ENV.fetch("DRIVER")
library = Libraries.const_get(ENV.fetch("LIBRARY")).new(driver, JSON.parse(ENV.fetch("PLACE"), symbolize_names: true))
pause = { "pg" => "SELECT pg_sleep(0.05)", "sqlite3" => nil }.fetch(driver, "SELECT SLEEP(0.05)")
add = ->(execute) { execute.call("UPDATE counts SET number = number + 1 WHERE id = #{rand(1..1000)}") }
hold = lambda do |execute|
  next execute.call(pause) if pause

  add.call(execute)
  sleep(0.01)
end
page = lambda do |execute|
  add.call(execute)
  execute.call("SELECT id, number FROM counts WHERE id > #{rand(990)} ORDER BY id LIMIT 10")
end

run(lambda do |env|
  library.transaction(&(env["PATH_INFO"] == "/hold" ? hold : page))
  [200, { "content-type" => "text/plain", "content-length" => "5" }, ["done\n"]]
end)
