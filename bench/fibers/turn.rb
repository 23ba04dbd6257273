# frozen_string_literal: true

# One row, in a process of its own: ruby turn.rb fresh|pool ROW COUNT. Prints a line of JSON.
require "json"
require_relative "rows"

kind, row, count = ARGV
count = Integer(count)
if kind == "pool"
  require "abaca/scheduler"
  require "abaca/fiber_pool"
end
seconds = (kind == "pool" ? Bench::FiberRows::Pooled : Bench::FiberRows::Fresh).new.public_send(row, count)
puts JSON.generate(operations: count, seconds: seconds)
$stdout.flush
# Suspended fibers are not to be ended one by one.
exit!(0)
