# frozen_string_literal: true

# A Fiber::Scheduler in plain Ruby: the hooks that every scheduler must have, timeouts and child processes. It runs
# its fibers by resume and Fiber.yield, which Abaca's own does not; TransferringScheduler runs them by transfer.
class PlainScheduler
  def initialize
    @ready = []
    @readers = Hash.new { |hash, io| hash[io] = [] }
    @writers = Hash.new { |hash, io| hash[io] = [] }
    @home = Fiber.current
    @timers = {} # fiber => time
    @blocked = {} # fiber => true; #unblock, which may come from any thread, only makes it ready
    @limits = {} # a running timeout_after => when, in which fiber and what it raises
    @wake_reader, @wake_writer = IO.pipe
    @closed = false
  end

  # Runs until no fiber waits.
  def run
    turn until @blocked.empty? && @ready.empty? && @timers.empty? && @readers.empty? && @writers.empty?
  end

  def close
    return if @closed

    run
  ensure
    @closed = true
    [@wake_reader, @wake_writer].each { |io| io.close unless io.closed? }
  end

  def fiber(&block)
    Fiber.new(blocking: false, &block).tap { |fiber| start(fiber) }
  end

  def block(_blocker, timeout = nil)
    fiber = Fiber.current
    @blocked[fiber] = true
    wait_until(timeout && (now + timeout)) { leave } == :unblocked
  ensure
    @blocked.delete(fiber)
  end

  def unblock(_blocker, fiber)
    @ready << fiber
    @wake_writer.write_nonblock(".", exception: false)
  rescue IOError
    raise unless @closed # since the fiber has been found, and was the last one
  end

  def kernel_sleep(duration = nil)
    duration ? wait_until(now + duration) { leave } : block(:sleep)
    true
  end

  def io_wait(io, events, timeout = nil)
    fiber = Fiber.current
    readable = events.anybits?(IO::READABLE)
    writable = events.anybits?(IO::WRITABLE)
    @readers[io] << fiber if readable
    @writers[io] << fiber if writable
    found = wait_until(timeout && (now + timeout)) { leave }
    found.is_a?(Integer) && found
  ensure
    drop(@readers, io, fiber) if readable
    drop(@writers, io, fiber) if writable
  end

  def timeout_after(duration, exception, message)
    limit = Object.new
    @limits[limit] = [now + duration, Fiber.current, [exception, message].compact]
    yield duration
  ensure
    @limits.delete(limit)
  end

  def process_wait(pid, flags) = Thread.new { Process::Status.wait(pid, flags) }.value

  private

  # Runs a fiber until it waits or ends.
  def start(fiber) = fiber.resume

  # Gives control back to the loop; returns the value that the fiber is resumed with.
  def leave = Fiber.yield

  # Continues a fiber that waits, which gets the value from its #leave.
  def continue(fiber, value = nil)
    switch_to(fiber, value) if fiber.alive?
  end

  def switch_to(fiber, value) = fiber.resume(value)

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  def wait_until(time)
    fiber = Fiber.current
    @timers[fiber] = time if time
    yield
  ensure
    @timers.delete(fiber) if time
  end

  def drop(table, io, fiber)
    table[io].delete(fiber)
    table.delete(io) if table[io].empty?
  end

  # A fiber that waits for a closed IO finds out by itself.
  def wake_for_closed
    [@readers, @writers].each do |table|
      table.select { |io, _| io.closed? }.each_value { |fibers| fibers.dup.each { |fiber| continue(fiber) } }
    end
  end

  def turn
    wake_for_closed
    readable, writable = IO.select([@wake_reader, *@readers.keys], @writers.keys, nil, patience)
    @wake_reader.read_nonblock(4096, exception: false) if readable&.delete(@wake_reader)
    events = Hash.new(0).compare_by_identity
    readable&.each { |io| @readers[io].each { |fiber| events[fiber] |= IO::READABLE } }
    writable&.each { |io| @writers[io].each { |fiber| events[fiber] |= IO::WRITABLE } }
    events.each { |fiber, set| continue(fiber, set) }
    @timers.select { |_, time| time <= now }.each_key { |fiber| continue(fiber) if @timers.key?(fiber) }
    @limits.select { |_, (time)| time <= now }.each_key { |limit| break_off(limit) }
    @ready.slice!(0..).each { |fiber| continue(fiber, :unblocked) }
  end

  # The block that it limits may have ended meanwhile.
  def break_off(limit)
    _, fiber, exception = @limits.delete(limit)
    fiber.raise(*exception) if fiber&.alive?
  end

  # Seconds that the wait may take; nil is forever.
  def patience
    return 0 unless @ready.empty?

    time = [*@timers.values, *@limits.values.map(&:first)].min
    time && [time - now, 0].max
  end
end

# The same by transfer: a fiber that raises in another one does not get control back by itself.
class TransferringScheduler < PlainScheduler
  private

  def start(fiber)
    # A fiber other than the loop has to be resumed by it.
    @ready << Fiber.current unless Fiber.current == @home
    fiber.transfer
  end

  def leave = @home.transfer

  def switch_to(fiber, value) = fiber.transfer(value)
end
