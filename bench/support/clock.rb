# frozen_string_literal: true

module Bench
  # Monotonic time, and waiting with an end.
  module Clock
    module_function

    # @return [Float] monotonic seconds
    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    # Calls the block every `every` seconds until it returns something true.
    #
    # @param seconds [Numeric] how long to try
    # @return the block's value, or nil when the time is over
    def wait_until(seconds:, every: 0.05)
      deadline = now + seconds
      loop do
        value = yield
        return value if value
        return nil if now >= deadline

        sleep every
      end
    end
  end
end
