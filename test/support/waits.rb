# frozen_string_literal: true

# How tests wait. What has to happen is waited for (`eventually`), and what must not happen gets the time to
# (`nothing_for`). A bare `sleep` belongs to an app, to a client that is slow on purpose, or to a fiber whose wait is
# the subject of the test.
module Waits
  PAUSE = 0.005 # seconds between two looks
  WITHIN = 60 # seconds, for a busy machine: only what never happens takes as long

  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # Asks the block until it is true or `within` seconds are over; returns what it said, or false.
  def self.eventually(within: WITHIN)
    deadline = now + within
    until (result = yield)
      return false if now > deadline

      sleep PAUSE
    end
    result
  end

  def now = Waits.now

  def eventually(within: WITHIN, &block) = Waits.eventually(within: within, &block)

  # Lets seconds pass in which the test does nothing. The block, if there is one, stays true all the time.
  def nothing_for(seconds)
    return sleep(seconds) unless block_given?

    deadline = Waits.now + seconds
    while Waits.now < deadline
      assert yield, "it did not stay so for #{seconds} s"
      sleep PAUSE
    end
  end
end
