# frozen_string_literal: true

require "English"
require "abaca/scheduler"
require "rbconfig"
require "timeout"

# For tests that run fibers on an Abaca::Scheduler: in a separate thread, with a deadline.
module SchedulerCase
  # A third of what a test may take, as some tests wait more than once.
  DEADLINE = Deadline::SECONDS / 3

  # Remembers what fibers raise, a failed assertion above all: otherwise it would only be reported.
  class Recorder < Abaca::Scheduler
    def errors = (@errors ||= [])

    def fiber(**options, &block)
      super do
        block.call
      rescue StandardError, ScriptError, Minitest::Assertion => e
        errors << e
      end
    end
  end

  def self.clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # Runs the block on the root fiber of a new thread that has a scheduler, and then the loop, until no
  # fiber is left. Returns the block's value; raises what the thread raised.
  # The options are the scheduler's.
  def with_scheduler(within: DEADLINE, **options)
    result = nil # Ruby 3.1 does not mark a thread's value while the end of the thread closes its scheduler
    thread = Thread.new do
      Thread.current.report_on_exception = false
      Fiber.set_scheduler(scheduler = Recorder.new(**options))
      result = yield scheduler
      scheduler.close
      raise scheduler.errors.first unless scheduler.errors.empty?
    end
    return result if thread.join(within)

    place = thread.backtrace&.first(8)&.join("\n")
    thread.kill
    flunk("the scheduler did not end within #{within} s:\n#{place}")
  end

  # Opens again and again until the first of what the block opens has this number: the collector may have closed
  # descriptors below it.
  def opened_as(number)
    kept = []
    100.times do
      opened = yield
      ios = [opened].flatten
      return opened if ios.first.fileno == number

      kept.concat(ios.each { |io| io.close if io.fileno == number })
    end
    flunk "nothing gets the number #{number}"
  end

  # Runs the block as the only fiber and returns its value; what it raises is raised here.
  def in_fiber(within: DEADLINE)
    result = error = nil
    with_scheduler(within: within) do
      Fiber.schedule do
        result = yield Fiber.scheduler
      rescue Exception => e # rubocop:disable Lint/RescueException
        error = e
      end
    end
    raise error if error

    result
  end

  # The seconds that the block took.
  def seconds
    start = SchedulerCase.clock
    yield
    SchedulerCase.clock - start
  end

  # A heap that is large enough for a test's objects, in the variables of every Ruby.
  LARGE_HEAP = %w[RUBY_GC_HEAP_INIT_SLOTS RUBY_GC_HEAP_0_INIT_SLOTS RUBY_GC_HEAP_1_INIT_SLOTS RUBY_GC_HEAP_2_INIT_SLOTS]
               .to_h { |name| [name, "400000"] }.freeze

  # Runs Ruby code in a separate process, with a deadline. Returns [status, stdout, stderr].
  def run_ruby(code, *options, within: DEADLINE, env: {})
    out_read, out_write = IO.pipe
    err_read, err_write = IO.pipe
    path = $LOAD_PATH.flat_map { |folder| ["-I", folder] }
    pid = spawn(env, RbConfig.ruby, *options, *path, "-e", code, out: out_write, err: err_write)
    [out_write, err_write].each(&:close)
    readers = [out_read, err_read].map { |io| Thread.new { io.read } }
    status = wait_within(pid, within)
    [status, *readers.map(&:value)]
  ensure
    [out_read, err_read].each(&:close)
  end

  def wait_within(pid, within)
    limit = SchedulerCase.clock + within
    while SchedulerCase.clock < limit
      return $CHILD_STATUS if Process.wait(pid, Process::WNOHANG)

      sleep 0.01
    end
    Process.kill(:KILL, pid)
    Process.wait(pid)
    flunk("the process did not end within #{within} s")
  end
end
