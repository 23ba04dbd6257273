# frozen_string_literal: true

require "fiddle"

# Code that computes, as Ruby and the server see it, but needs no processor: it sleeps with Ruby's lock held.
module Computing
  # Called with a number of microseconds. Other threads may get the lock afterwards, as between any two lines. In a
  # backtrace it has its caller's line, but from Ruby 3.4 on there may be a line of Fiddle's above.
  STEP = Fiddle::Function.new(Fiddle.dlopen(nil)["usleep"], [Fiddle::TYPE_INT], Fiddle::TYPE_INT, need_gvl: true)
end
