# frozen_string_literal: true

# BODY bytes, and what the garbage collector had to do for them: a line with its counters goes to the
# log when the process ends. /gc/off stops the collector, /gc tells the counters, and /gc/on lets it
# run again and starts the counting afresh.
require "json"

body = ("x" * Integer(ENV.fetch("BODY", "2048"))).freeze
type = { "content-type" => "text/plain" }.freeze
names = %i[minor_gc_count major_gc_count time total_allocated_objects]
first = names.to_h { |name| [name, GC.stat(name)] }
counters = -> { names.to_h { |name| [name, GC.stat(name) - first[name]] } }

control = lambda do |path|
  case path
  when "/gc/off"
    GC.start
    GC.disable
  when "/gc/on"
    GC.enable
    GC.start
    first = names.to_h { |name| [name, GC.stat(name)] }
  end
  JSON.generate(counters.call.merge(malloc_increase_bytes: GC.stat(:malloc_increase_bytes)))
end

at_exit { warn "COUNTERS #{JSON.generate(counters.call)}" }

run(lambda do |env|
  path = env["PATH_INFO"]
  [200, type.dup, [path == "/" ? body : control.call(path)]]
end)
