# frozen_string_literal: true

# The native part looks the error classes up when it is loaded.
require_relative "errors"
require "abaca/abaca"

module Abaca
  # Fibers that run many jobs, one after another, and are scrubbed in between: no fiber-local, no
  # fiber storage and no instance variable of one job is seen by the next. The server runs each
  # request as such a job. A fiber that was killed, or that cannot be made clean, is replaced.
  #
  #     pool = Abaca::FiberPool.new(max: 2_000, warm: 64)
  #     pool.stats # => { live: 64, idle: 64, busy: 0, ... }
  #
  # Each fiber takes two memory mappings of the process; +max+ is never above 40 % of what
  # vm.max_map_count allows.
  class FiberPool
  end
end
