# frozen_string_literal: true

# Everything at once on one Abaca::Scheduler, for a time: sockets, pipes, queues, mutexes, condition
# variables, threads, time-outs, Fiber#raise and Fiber#kill, child processes, forks, descriptors that are
# closed and used again. Each kind of work counts what it sends and what arrives. At the end no wake-up may
# be lost, no descriptor left open and no fiber left over:
#
#     ruby -Ilib test/stress/scheduler_stress.rb [seconds, 60 by default] [quantum in seconds]
require "abaca/scheduler"
require "monitor"
require "socket"
require "timeout"

# One run; the methods named work_* each run as several fibers until the time is over.
class SchedulerStress
  # Seconds after which a waiting fiber has lost its wake-up, however slow the machine.
  STUCK_AFTER = 60
  # Raised in fibers at random moments.
  class Poke < StandardError; end

  def self.clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  attr_reader :counts, :problems

  def initialize(seconds, seed: 1, **options)
    @seconds = seconds
    @options = options
    @random = Random.new(seed)
    @counts = Hash.new(0)
    @problems = []
    @victims = []
    @localhost = addresses_of_localhost
  end

  # Returns the problems that were found, as Strings.
  def run
    settle
    before = descriptors
    thread = Thread.new { run_loop }
    @problems << "the loop did not end: #{state_of(thread)}\n#{@scheduler.fibers.join("\n")}" unless ended?(thread)
    thread.kill
    settle
    left = descriptors - before
    @problems << "descriptors left: #{left}" unless left.empty?
    @counts.each { |name, count| @problems << "#{name} did nothing" if count.zero? }
    @problems
  end

  private

  # Waits for the end. A loop that stands still in between makes all fibers look stuck: this says where it is.
  def ended?(thread)
    limit = self.class.clock + @seconds + (2 * STUCK_AFTER)
    until thread.join(1)
      return false if self.class.clock > limit

      turned = @turned
      next unless turned && self.class.clock - turned > STUCK_AFTER

      @turned = nil
      @problems << "the loop stands still: #{state_of(thread)}"
    end
    true
  end

  # Where a loop that does not end is, in Ruby and in the kernel, and whether it spins there: its state and
  # its ticks of processor time twice, a second apart.
  def state_of(thread)
    kernel = Array.new(2) do
      sleep 1
      fields = File.read("/proc/self/task/#{thread.native_thread_id}/stat").rpartition(")").last.split
      fields.values_at(0, 11, 12).join(" ")
    end
    [kernel.join(", "), @counts.to_a.flatten.join(" "), *thread.backtrace].join("\n")
  end

  # What the process makes once and keeps.
  def settle
    Timeout.timeout(1) { nil }
    GC.start
  end

  def descriptors
    Dir.children("/proc/self/fd").filter_map do |fd|
      [fd, File.readlink("/proc/self/fd/#{fd}")]
    rescue SystemCallError
      nil
    end
  end

  def run_loop
    Fiber.set_scheduler(@scheduler = Abaca::Scheduler.new(**@options))
    @limit = self.class.clock + @seconds
    start_work
    Fiber.schedule { watch }
    @scheduler.run
    left = @scheduler.fibers
    @problems << "fibers left: #{left}" unless left.empty?
    Fiber.set_scheduler(nil)
  rescue Exception => e # rubocop:disable Lint/RescueException
    @problems << "the loop ended with #{e.full_message(highlight: false)}"
  end

  def start_work
    { pipes: 8, sockets: 8, queues: 4, thread_queues: 4, sized_queues: 2, mutexes: 6, conditions: 2, monitors: 4,
      thread_mutexes: 2, thread_conditions: 2, joins: 3, timeouts: 6, victims: 6, enumerators: 2, descriptors: 4,
      children: 2, any_child: 1, forks: 1, names: 2, selects: 2, spawns: 3, files: 1 }.each do |name, fibers|
      @counts[name] = 0
      fibers.times { Fiber.schedule { guard(name) } }
    end
    Fiber.schedule { poke }
  end

  def guard(name)
    until over?
      begin
        @doing = name
        __send__(:"work_#{name}")
        @counts[name] += 1
      rescue Exception => e # rubocop:disable Lint/RescueException
        @problems << "#{name}: #{e.full_message(highlight: false)}"
        raise
      end
    end
  end

  # Not before everything was done once, on however slow a machine.
  def over?
    late = self.class.clock - @limit
    (late >= 0 && (@counts.each_value.none?(&:zero?) || late > STUCK_AFTER)) || @problems.size > 20
  end

  def check(name, condition)
    @problems << "#{name} went wrong at #{caller(1, 1)}" unless condition
  end

  # Whoever waits for much longer than any work here takes has lost a wake-up.
  def watch
    until over?
      @turned = self.class.clock
      sleep 1
      stuck = @scheduler.fibers.select { |entry| self.class.clock - entry[:since] > STUCK_AFTER }
      stuck.each { |entry| @problems << "stuck: #{entry}" }
    end
  ensure
    @turned = nil
  end

  def pause = sleep(@random.rand * 0.003)

  def work_pipes
    reader, writer = IO.pipe
    Fiber.schedule { 50.times { |i| writer.puts(i) && (pause if (i % 17).zero?) } && writer.close }
    check(:pipes, reader.read.lines.map(&:to_i) == (0...50).to_a)
  ensure
    reader.close
  end

  def work_sockets
    left, right = UNIXSocket.pair
    server = TCPServer.new("127.0.0.1", 0)
    Fiber.schedule { (client = server.accept) && client.write(client.readpartial(100)) && client.close }
    client = TCPSocket.new("127.0.0.1", server.local_address.ip_port)
    client.write("hello")
    check(:sockets, client.read == "hello")
    data = "x" * 300_000
    Fiber.schedule { left.write(data) && left.close }
    check(:sockets, right.read == data)
  ensure
    [left, right, server, client].compact.each { |io| io.close unless io.closed? }
  end

  def ping_pong(there, back, rounds)
    rounds.times { |i| (there << i) && check(:queue, back.pop == i) }
    there << nil
  end

  def work_queues
    there = Queue.new
    back = Queue.new
    Fiber.schedule { (value = there.pop) ? back << value : break while true } # rubocop:disable Style/InfiniteLoop
    ping_pong(there, back, 20)
  end

  # Wake-ups from another thread, while the loop is blocked and while it is not.
  def work_thread_queues
    there = Queue.new
    back = Queue.new
    thread = Thread.new do
      while (value = there.pop)
        sleep(0.0005) if (value % 13).zero?
        back << value
      end
    end
    ping_pong(there, back, 20)
    thread.join
  end

  def work_sized_queues
    queue = SizedQueue.new(2)
    sum = 0
    thread = Thread.new { 50.times { queue << 1 } && queue.close }
    Fiber.schedule { 50.times { queue << 1 } rescue ClosedQueueError } # rubocop:disable Style/RescueModifier
    while (value = queue.pop)
      sum += value
    end
    check(:sized_queues, sum.between?(50, 100))
    thread.join
  end

  def work_mutexes
    @mutex ||= Mutex.new
    @mutex.synchronize do
      check(:mutexes, !@inside)
      @inside = true
      sleep(@random.rand(3).zero? ? 0.0005 : 0)
      @inside = false
    end
  end

  def work_monitors
    @monitor ||= Monitor.new
    @monitor.synchronize { @monitor.synchronize { (old = @monitored.to_i) && sleep(0) && (@monitored = old + 1) } }
  end

  def work_conditions
    mutex = Mutex.new
    variable = ConditionVariable.new
    turn = 0
    Fiber.schedule { 20.times { |i| take_turn(mutex, variable, -> { turn == (2 * i) + 1 }) { turn += 1 } } }
    20.times { |i| take_turn(mutex, variable, -> { turn == 2 * i }) { turn += 1 } }
    mutex.synchronize { variable.wait(mutex, 5) until turn == 40 }
  end

  def take_turn(mutex, variable, mine)
    mutex.synchronize do
      variable.wait(mutex) until mine.call
      yield
      variable.broadcast
    end
  end

  def work_thread_mutexes
    mutex = Mutex.new
    count = 0
    add = -> { 30.times { mutex.synchronize { (old = count) && sleep(0) && (count = old + 1) } } }
    threads = Array.new(2) { Thread.new(&add) }
    add.call
    threads.each(&:join)
    check(:thread_mutexes, count == 90)
  end

  def work_thread_conditions
    mutex = Mutex.new
    variable = ConditionVariable.new
    turn = 0
    thread = Thread.new { 15.times { |i| take_turn(mutex, variable, -> { turn == (2 * i) + 1 }) { turn += 1 } } }
    15.times { |i| take_turn(mutex, variable, -> { turn == 2 * i }) { turn += 1 } }
    thread.join
    check(:thread_conditions, turn == 30)
  end

  def work_joins
    check(:joins, Thread.new { sleep(0.001) && 1 }.value == 1)
    check(:joins, Thread.new { 2 }.join.value == 2)
  end

  def work_timeouts
    fired = false
    begin
      Timeout.timeout(0.0005 + (@random.rand * 0.002)) { sleep(@random.rand * 0.004) && Queue.new.pop }
    rescue Timeout::Error
      fired = true
    end
    # One that fired after its block would end this fiber.
    sleep(fired ? 0 : 0.003)
    Timeout.timeout(30) { Queue.new.tap { |queue| Thread.new { queue << 1 } }.pop }
  end

  # Fibers that wait for something, to be raised in or killed by the one that pokes.
  def work_victims
    reader, writer = IO.pipe
    fiber = Fiber.schedule do
      [-> { sleep }, -> { Queue.new.pop }, -> { reader.read(1) }, -> { Mutex.new.synchronize { sleep } }].sample.call
    rescue Poke
      nil
    ensure
      @counts[:ended] += 1
    end
    @counts[:begun] += 1
    @victims << fiber
    pause while fiber.alive?
  ensure
    [reader, writer].each(&:close)
  end

  def poke
    until over? && @victims.none?(&:alive?)
      @victims.select!(&:alive?)
      @victims.each { |fiber| fiber.respond_to?(:kill) && @random.rand(2).zero? ? fiber.kill : fiber.raise(Poke, "x") }
      sleep 0.001
    end
  end

  def work_enumerators
    enumerator = Enumerator.new { |yielder| 5.times { |i| pause && (yielder << i) } }
    check(:enumerators, Array.new(5) { enumerator.next } == [0, 1, 2, 3, 4])
    pause # the waits inside block the thread on Ruby 3.1
  end

  # The same numbers again and again, some closed while somebody waits for them.
  def work_descriptors
    reader, writer = IO.pipe
    waiter = Fiber.schedule { reader.read(1) || :end rescue IOError } # rubocop:disable Style/RescueModifier
    @random.rand(2).zero? ? writer.close : reader.close
    pause while waiter.alive?
    [reader, writer].each(&:close)
    reader, writer = IO.pipe
    Fiber.schedule { writer.write("new") && writer.close }
    check(:descriptors, reader.read == "new")
  ensure
    [reader, writer].each(&:close)
  end

  def work_children
    pid = spawn("exit 3")
    check(:children, Process.wait2(pid).last.exitstatus == 3)
    check(:children, `echo text` == "text\n")
  rescue Errno::ECHILD
    nil # work_any_child was faster
  end

  def work_any_child
    pid = spawn("exit 4", pgroup: true)
    check(:any_child, Process.wait2(-pid).last.exitstatus == 4)
    sleep 0.02
  end

  # A child that has the parent's scheduler, and then one of its own.
  def work_forks
    pid = fork do
      sleep 0.001
      Fiber.set_scheduler(Abaca::Scheduler.new)
      done = 0
      queue = Queue.new
      Fiber.schedule { done += queue.pop }
      Fiber.schedule { sleep(0.001) && (queue << 7) }
      Fiber.scheduler.run
      exit!(done)
    end
    check(:forks, Process.wait2(pid).last.exitstatus == 7)
    sleep 0.05
  end

  def work_names
    check(:names, @scheduler.address_resolve("localhost").to_a.sort == @localhost)
    pause
  end

  # What the scheduler must find; nothing where there is no /etc/hosts.
  def addresses_of_localhost
    Addrinfo.getaddrinfo("localhost", nil, nil, :STREAM).map(&:ip_address).sort
  rescue SocketError
    []
  end

  def work_selects
    pairs = Array.new(3) { IO.pipe }
    Fiber.schedule { pause && pairs[1].last.write("x") }
    check(:selects, @scheduler.io_select(pairs.map(&:first), nil, nil, 5) == [[pairs[1].first], [], []])
    check(:selects, @scheduler.io_wait(pairs[0].first, IO::READABLE, 0.001) == false)
  ensure
    pairs.flatten.each(&:close)
  end

  def work_spawns
    count = 0
    50.times { Fiber.schedule { sleep(0) && count += 1 } }
    sleep 0 until count == 50
  end

  def work_files
    check(:files, File.read(__FILE__).include?("work_files"))
    pause
  end
end

if $PROGRAM_NAME == __FILE__
  seconds = Float(ARGV.fetch(0, "60"))
  options = ARGV[1] ? { quantum: Float(ARGV[1]) } : {}
  stress = SchedulerStress.new(seconds, seed: Random.new_seed, **options)
  problems = stress.run
  puts stress.counts.map { |name, count| "#{name} #{count}" }.join(", ")
  abort problems.first(10).join("\n") unless problems.empty?
  puts "Ruby #{RUBY_VERSION}: #{seconds} s without a problem"
end
