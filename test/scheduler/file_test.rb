# frozen_string_literal: true

# also: sanitized rubies

require "test_helper"
require "support/scheduler_case"
require "tempfile"
require "tmpdir"

# Regular files: the loop never waits for a disk, threads do. What the page cache has or takes crosses no
# thread.
class SchedulerFileTest < Minitest::Test
  include SchedulerCase

  DATA = Random.new(7).bytes((3 << 20) + 777).freeze
  # More than is copied to the page cache on the loop's thread.
  LARGE = DATA.byteslice(0, 200_000).freeze
  SHM = "/dev/shm"

  # A file on a disk; in memory nothing is ever waited for.
  def on_disk(content = DATA)
    Tempfile.create("abaca") do |file|
      major = file.stat.dev_major
      skip "the temporary folder is on no disk" if major.zero?
      file.binmode
      file.sync = true
      file.write(content)
      yield file.tap(&:rewind)
    end
  end

  # Takes the file out of the page cache.
  def cool(file)
    file.fsync
    file.advise(:dontneed)
    file
  end

  # A fiber that runs the block with the file, which it reads from the disk. On a busy machine the kernel may have kept
  # the file in the page cache, so that no fiber waits: then another one tries, and what the block does is done twice.
  def reader_that_waits(file)
    20.times do
      reader = Fiber.schedule { yield cool(file).tap(&:rewind) }
      return reader if reader.alive?

      sleep 0.01
    end
    flunk "no fiber waits for the disk"
  end

  # Runs the block in a fiber. Yields what Scheduler#fibers tells of it when it first waits, or nil.
  def first_wait(&block)
    entry = result = nil
    with_scheduler do |scheduler|
      fiber = Fiber.schedule { result = block.call }
      entry = scheduler.fibers.find { |candidate| candidate[:fiber].equal?(fiber) }
    end
    [entry&.slice(:waiting_for, :fd, :events, :object), result]
  end

  # The same of a block that reads the file from the disk. As above, another fiber tries where the kernel has kept it.
  def first_wait_for_disk(file, &block)
    found = nil
    20.times do
      found = first_wait { block.call(cool(file).tap(&:rewind)) }
      break if found.first
    end
    found
  end

  def waits_for(file, event)
    { waiting_for: :io, fd: file.fileno, events: [event], object: file }
  end

  def native_threads = Dir.children("/proc/self/task").size

  def test_a_cold_read_waits_and_others_run
    on_disk do |file|
      entry, read = first_wait_for_disk(file, &:read)
      assert_equal waits_for(file, :readable), entry
      assert_equal DATA, read
    end
  end

  # A thread loads a feature, not a fiber: others would take it for loaded.
  def test_source_is_read_in_place
    Dir.mktmpdir do |folder|
      path = File.join(folder, "abaca_cold.rb")
      File.write(path, "module AbacaCold; VALUE = 1; end\n")
      skip "the temporary folder is on no disk" if File.stat(path).dev_major.zero?
      File.open(path) { |file| cool(file) }
      Object.autoload(:AbacaCold, path)
      values = []
      with_scheduler { 2.times { Fiber.schedule { values << AbacaCold::VALUE } } }
      assert_equal [1, 1], values
    ensure
      Object.send(:remove_const, :AbacaCold)
    end
  end

  def test_a_warm_read_does_not_wait
    need_platform(:page_cache)
    on_disk do |file|
      file.read
      file.rewind
      entry, read = first_wait { file.read }
      assert_nil entry
      assert_equal DATA, read
    end
  end

  # sysread gives out what the kernel says: no EAGAIN of a missing page.
  def test_every_way_to_read_cold
    on_disk do |file|
      File.open(file.path, "rb") do |reader|
        in_fiber do
          assert_equal DATA[0, 100], cool(reader).sysread(100)
          assert_equal 100, reader.sysseek(0, IO::SEEK_CUR)
          assert_equal DATA[100, 50], cool(reader).readpartial(50)
          assert_equal DATA[150, 5], cool(reader).read(5)
          assert_equal DATA[1 << 20, 10], cool(reader).pread(10, 1 << 20)
          reader.seek(-3, IO::SEEK_END)
          assert_equal DATA[-3..], cool(reader).read
          assert_equal "", cool(reader).read
          assert_nil cool(reader).read(1)
          assert_raises(EOFError) { cool(reader).sysread(1) }
        end
      end
    end
  end

  # The number belonged to a pipe that the poller knew.
  def test_a_number_that_was_a_pipe_s
    on_disk do |file|
      in_fiber do
        reader, writer = IO.pipe
        Fiber.schedule { sleep(0.001) && writer.write("x") }
        reader.readpartial(1)
        number = reader.fileno
        reader.close
        again = opened_as(number) { File.open(file.path, "rb") }
        assert_equal DATA[0, 10], cool(again).sysread(10)
        again.close
        writer.close
      end
    end
  end

  def test_two_fibers_that_read_one_file_get_each_byte_once
    on_disk do |file|
      parts = []
      with_scheduler do
        cool(file)
        4.times do
          Fiber.schedule do
            while (part = file.sysread(70_000))
              parts << part
              cool(file)
            end
          rescue EOFError
            nil
          end
        end
      end
      assert_equal DATA.size, parts.sum(&:size)
      assert_equal DATA, parts.join
    end
  end

  def test_a_read_that_is_given_up_loses_nothing
    on_disk do |file|
      given_up = false
      with_scheduler do
        reader = reader_that_waits(file) do |cold|
          cold.sysread(1000)
        rescue KeyError
          given_up = true
        end
        Fiber.schedule { reader.raise(KeyError, "x") }
        Fiber.schedule { assert_equal DATA[0, 1000], file.sysread(1000) }
      end
      assert given_up
    end
  end

  def test_a_file_that_is_closed_meanwhile
    on_disk do |file|
      closed = false
      with_scheduler do
        reader = File.open(file.path, "rb") # rubocop:disable Style/FileOpen
        reader_that_waits(reader) do |cold|
          cold.read
        rescue IOError
          closed = true
        end
        # From Ruby 4.0 on the close waits until the read has ended: on the root fiber nothing would end it.
        Fiber.schedule { reader.close }
      end
      assert closed
    end
  end

  def test_a_timeout_of_the_io
    skip "IO#timeout is of Ruby 3.2" unless IO.method_defined?(:timeout=)
    on_disk do |file|
      in_fiber do
        file.timeout = 0
        # As in reader_that_waits, what is still in the page cache is read in time.
        assert_raises(IO::TimeoutError) { 20.times { cool(file).sysread(10) && sleep(0.01) } }
        file.timeout = nil
        file.rewind
        assert_equal DATA[0, 10], cool(file).sysread(10)
        file.timeout = 0
        # One that is over before the fiber is looked at is in time.
        assert_raises(IO::TimeoutError) { 50.times { file.syswrite(LARGE) } }
      end
    end
  end

  def test_a_log_line_does_not_wait
    on_disk("") do |file|
      entry, = first_wait { 100.times { |i| file.syswrite("line #{i}\n") } }
      assert_nil entry
      assert_equal 100, File.foreach(file.path).count
    end
  end

  def test_a_large_write_waits_and_is_whole
    on_disk("") do |file|
      entry, written = first_wait { file.syswrite(DATA) }
      assert_equal waits_for(file, :writable), entry
      assert_equal DATA.size, written
      assert_equal DATA, File.binread(file.path)
    end
  end

  def test_a_file_that_wants_the_disk_at_once
    on_disk("") do |file|
      File.open(file.path, File::WRONLY | File::DSYNC) do |log|
        log.sync = true
        entry, = first_wait { log.write("line\n") }
        assert_equal waits_for(log, :writable), entry
      end
      assert_equal "line\n", File.read(file.path)
    end
  end

  # Large and small ones of several fibers: in the order of the calls, none inside another.
  def test_writes_of_one_file_keep_their_order
    on_disk("") do |file|
      File.open(file.path, "ab") do |log|
        with_scheduler do
          20.times { |i| Fiber.schedule { log.syswrite((65 + i).chr * (i.odd? ? 3 : 300_000)) } }
        end
      end
      runs = File.binread(file.path).scan(/(?:(.)\1*)/).flatten
      assert_equal Array.new(20) { |i| (65 + i).chr }, runs
    end
  end

  def test_a_write_that_is_given_up_lets_the_next_go_on
    on_disk("") do |file|
      with_scheduler do
        writers = Array.new(6) do |i|
          Fiber.schedule do
            file.syswrite(i.to_s * 2_500_000)
          rescue KeyError
            nil
          end
        end
        # One that writes, and one that waits for its turn.
        Fiber.schedule { [0, 2].each { |i| writers[i].raise(KeyError, "x") } }
      end
      counts = File.binread(file.path).each_char.tally
      %w[1 3 4 5].each { |digit| assert_equal 2_500_000, counts[digit] }
      assert_operator counts.fetch("0", 0), :<, 2_500_000
      refute counts.key?("2")
    end
  end

  def test_more_writes_than_threads
    before = native_threads
    with_scheduler do
      20.times do |i|
        Fiber.schedule do
          on_disk("") { |file| assert_equal LARGE.size, file.syswrite(LARGE) && File.size(file.path), i.to_s }
        end
      end
      assert_operator native_threads, :<=, before + 1 + 4
    end
  end

  def test_pread
    skip "IO#pread asks the scheduler from Ruby 3.3 on" if RUBY_VERSION < "3.3"
    on_disk do |file|
      entry, read = first_wait_for_disk(file) { |cold| cold.pread(100, 2 << 20) }
      assert_equal waits_for(file, :readable), entry
      assert_equal DATA[2 << 20, 100], read
      assert_equal 0, file.pos
    end
  end

  # Ruby 3.3 and 3.4 call the hook without the GVL: it must neither wait nor touch an object there.
  def test_pwrite
    on_disk do |file|
      in_fiber do
        5.times { |i| assert_equal LARGE.size, file.pwrite(LARGE, 50 + i) }
        sleep 0.001
        assert_equal LARGE, file.pread(LARGE.size, 54)
        assert_equal 0, file.pos
      end
    end
  end

  def test_positional_hooks_of_a_buffer
    skip "Ruby 4.1 has another order" if RUBY_VERSION >= "4.1"
    on_disk do |file|
      rest = RUBY_VERSION < "3.2" ? [0, 50] : [50, 0, 0]
      entry, count = first_wait { Fiber.scheduler.io_pwrite(file, IO::Buffer.for(LARGE), *rest) }
      assert_equal waits_for(file, :writable), entry
      assert_equal LARGE.size, count
      assert_equal LARGE, File.binread(file.path, LARGE.size, 50)
      buffer = IO::Buffer.new(1000)
      entry, count = first_wait_for_disk(file) { |cold| Fiber.scheduler.io_pread(cold, buffer, *rest) }
      assert_equal waits_for(file, :readable), entry
      assert_equal [1000, LARGE[0, 1000]], [count, buffer.get_string]
      assert_equal 0, file.pos
    end
  end

  def test_behind_four_gigabytes
    on_disk("") do |file|
      place = (4 << 30) + 5
      in_fiber do
        file.seek(place)
        file.write(LARGE)
        file.seek(place)
        assert_equal LARGE[0, 10], cool(file).sysread(10)
        assert_equal place + 10, file.pos
      end
    end
  end

  def test_a_disk_that_is_full
    skip "no /dev/full" unless File.exist?("/dev/full")
    in_fiber { File.open("/dev/full", "wb") { |file| assert_raises(Errno::ENOSPC) { file.syswrite(LARGE) } } }
  end

  # An error of the thread's call is the caller's.
  def test_a_limit_on_the_size_of_files
    on_disk("") do |file|
      status, out, err = run_ruby(<<~RUBY)
        require "abaca/scheduler"
        trap("XFSZ", "IGNORE")
        Process.setrlimit(:FSIZE, 1_500_000)
        Thread.new do
          Fiber.set_scheduler(Abaca::Scheduler.new)
          Fiber.schedule do
            file = File.open(#{file.path.inspect}, "wb")
            puts file.syswrite("x" * 3_000_000)
            begin
              file.syswrite("x" * 100_000)
            rescue Errno::EFBIG
              puts "too big"
            end
          end
        end.join
      RUBY
      assert_predicate status, :success?, err
      assert_equal "1500000\ntoo big\n", out
    end
  end

  def test_files_of_memory_and_folders
    need_platform(:page_cache)
    entry, = first_wait do
      assert_match(/^Name:/, File.read("/proc/self/status"))
      refute_empty File.read("/sys/kernel/mm/transparent_hugepage/enabled") if File.directory?("/sys/kernel/mm")
      assert_raises(Errno::EISDIR) { File.open("/tmp").sysread(10) } # rubocop:disable Style/FileOpen
      Dir.mktmpdir("abaca", SHM) do |folder|
        File.binwrite("#{folder}/file", DATA)
        assert_equal DATA, File.binread("#{folder}/file")
      end
    end
    assert_nil entry
  end

  # When no thread can be had, the work is done in place.
  def test_without_threads
    on_disk do |file|
      status, out, err = run_ruby(<<~RUBY)
        require "abaca/scheduler"
        path = #{file.path.inspect}
        Fiber.set_scheduler(scheduler = Abaca::Scheduler.new)
        Fiber.schedule { sleep 0 }
        scheduler.run
        size = File.read("/proc/self/statm").to_i * 4096
        Process.setrlimit(:AS, size + (6 << 20)) # the stack of a thread takes 8
        Fiber.schedule do
          file = File.open(path, "r+b")
          file.advise(:dontneed)
          puts file.sysread(100).size
          puts file.syswrite("x" * 100_000)
        end
        puts scheduler.fibers.size
        scheduler.run
      RUBY
      assert_predicate status, :success?, err
      assert_equal "100\n100000\n0\n", out
    end
  end

  # A forked child that has the parent's scheduler reads in place; the parent's read goes on.
  def test_fork_meanwhile
    on_disk do |file|
      with_scheduler do
        reader_that_waits(file) { |cold| assert_equal DATA, cold.read }
        Fiber.schedule do
          pid = fork do
            own = File.open(file.path, "rb") # rubocop:disable Style/FileOpen
            own.advise(:dontneed)
            exit!(own.sysread(10) == DATA[0, 10] ? 4 : 1)
          end
          assert_equal 4, Process.wait2(pid).last.exitstatus
        end
      end
    end
  end

  def test_no_descriptor_is_left
    on_disk do |file|
      before = descriptors
      with_scheduler do
        10.times { Fiber.schedule { File.open(file.path) { |own| cool(own).sysread(10) } } }
        victim = Fiber.schedule { assert_raises(KeyError) { file.syswrite(DATA) } }
        Fiber.schedule { victim.raise(KeyError, "x") }
      end
      left = nil
      assert eventually { (left = descriptors - before).empty? }, left.inspect
    end
  end

  # Those that are open, but for the one of the listing: [number, what it is].
  def descriptors
    Dir.children("/proc/self/fd").filter_map do |fd|
      [fd, File.readlink("/proc/self/fd/#{fd}")]
    rescue Errno::ENOENT
      nil
    end
  end

  # The hooks of a closed scheduler, and on another thread, read in place too.
  def test_hooks_where_waiting_is_impossible
    on_disk do |file|
      buffer = IO::Buffer.new(16)
      scheduler = Abaca::Scheduler.new
      in_fiber { |own| Thread.new { assert_equal 16, own.io_read(cool(file), buffer, 0) }.join }
      scheduler.close
      assert_equal 16, scheduler.io_read(cool(file), buffer, 0)
      assert_equal DATA[16, 16], buffer.get_string
    end
  end
end
