# frozen_string_literal: true

# The native part looks the error classes up when it is loaded.
require_relative "errors"
require "abaca/abaca"

module Abaca
  # A Fiber::Scheduler on a native event loop. It needs no server:
  #
  #     require "abaca/scheduler"
  #
  #     Thread.new do
  #       Fiber.set_scheduler(Abaca::Scheduler.new)
  #       Fiber.schedule { Net::HTTP.get(URI("http://127.0.0.1:9292/")) }
  #       Fiber.schedule { sleep 1 }
  #     end.join # both at the same time
  #
  # Ruby calls the hooks (+io_wait+, +block+, +kernel_sleep+ and so on); these are for everybody:
  #
  # - #run runs fibers until none is left; Ruby does it by itself when the thread ends.
  # - #close runs what is left and detaches from the thread; #closed? tells.
  # - #fibers lists the fibers that wait or are ready, and what each waits for.
  #
  # A scheduler belongs to the thread that first uses it, and to the process that made it: a forked
  # child makes its own. There, until it does (Ruby before 4.0 leaves the parent's in place), a wait
  # blocks the thread as it does without a scheduler.
  #
  # An exception that ends a fiber of Fiber.schedule is written to $stderr, as
  # Thread#report_on_exception says, and ends nothing else. SystemExit, SignalException and
  # NoMemoryError are raised out of #run.
  #
  # What a Ruby cannot hand over still blocks the whole thread: IO.select and waits inside an
  # Enumerator's +next+ on Ruby 3.1, reads and writes of regular files on all.
  class Scheduler
  end
end
