# frozen_string_literal: true

require "stringio"
require "support/scheduler_case"
require "abaca/fiber_pool"

# For tests that give jobs to an Abaca::FiberPool.
module FiberPoolCase
  include SchedulerCase

  # Exceptions of jobs are expected here, so they are not printed.
  def with_pool(within: SchedulerCase::DEADLINE, **options)
    with_scheduler(within: within) do
      Thread.current.report_on_exception = false
      yield Abaca::FiberPool.new(**options)
    end
  end

  # Objects per operation of `count`, after as many to warm up.
  def objects_for_each(count)
    yield count
    before = GC.stat(:total_allocated_objects)
    yield count
    (GC.stat(:total_allocated_objects) - before) / count
  end

  # What the block writes to $stderr.
  def capture_stderr
    old = $stderr
    $stderr = StringIO.new
    yield
    $stderr.string
  ensure
    $stderr = old
  end
end
