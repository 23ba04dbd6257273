# frozen_string_literal: true

# also: sanitized

require "test_helper"
require "support/programs"
require "support/server_case"

# The page of another process, read from outside while that process is stopped: by a program that knows nothing but
# ext/abaca/page/layout.h, and by Abaca::Page.of.
class PageReaderTest < Minitest::Test
  include ServerCase

  ROOT = File.expand_path("../..", __dir__)

  def setup
    @page = Abaca::Page.create(slots: 3)
    super
  end

  def teardown
    super
  ensure
    @page.close
  end

  # Yields the pid of a worker in slot 1 that has served so many requests and is stopped then.
  def with_stopped_worker(requests)
    reader, writer = IO.pipe
    pid = fork do
      server = Abaca::Server.new(HELLO, slot: @page[1].claim(phase: 3))
      writer.puts server.add_tcp_listener("127.0.0.1", 0, defer_accept: false)
      server.run
    ensure
      exit!(0)
    end
    @clients << (client = Wire::Client.new(Integer(reader.gets)))
    requests.times { assert_equal 200, client.call(GET).status }
    Process.kill(:STOP, pid)
    assert(eventually { File.read("/proc/#{pid}/stat").include?(") T ") })
    yield pid
  ensure
    [reader, writer].each(&:close)
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end

  # Compiles the reader, and yields what runs it: a Proc with a pid that returns its output and status.
  def with_reader
    Dir.mktmpdir do |folder|
      program = File.join(folder, "reader")
      source = File.join(ROOT, "test/c/page/reader.c")
      flags = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I", File.join(ROOT, "ext/abaca")]
      assert system(*Programs.words("cc", *flags, source, "-o", program)), "the reader does not compile"
      yield lambda { |pid|
        text, status = Open3.capture2e(*Programs.words(program, pid.to_s))
        [text, status.exitstatus]
      }
    end
  end

  # Writes over the page's head, as another version would.
  def overwrite(offset, bytes)
    File.open(Abaca::Page.place(Process.pid), "r+b") { |file| file.pwrite(bytes, offset) }
  end

  def test_a_worker_that_is_stopped
    need_platform(:proc)
    with_stopped_worker(5) do |pid|
      with_reader do |read|
        text, status = read.call(pid)
        assert_equal 0, status, text
        head, slot, *others = text.lines
        assert_equal "page slots=3 creator=#{Process.pid}\n", head
        facts = "slot=1 state=2 pid=#{pid} phase=3 claims=1 requests=5 sum=5 connections=1"
        assert_match(/\A#{facts} rows=\d beat_ms=\d+\n\z/, slot)
        assert_empty others
      end
      seen = Abaca::Page.of(pid)
      assert_equal [:serving, pid, 3, 5], [seen[1].state, seen[1].pid, seen[1].phase, seen.sums.fetch(:requests)]
      seen.close
    end
  end

  def test_a_page_of_others_can_only_be_read
    seen = Abaca::Page.of(Process.pid)
    @page[0].claim
    assert_predicate seen[0], :mine?
    [-> { seen[0].beat }, -> { seen[0].state = :ended }, -> { seen[0].claim }].each do |use|
      assert_equal "the page is another server's: it can only be read", assert_raises(Abaca::Error, &use).message
    end
    server = Abaca::Server.new(HELLO, slot: seen[0], log: Abaca::Log.new(StringIO.new))
    assert_raises(Abaca::Error) { server.run }
    assert_equal :booting, @page[0].state
    seen.close
  end

  def test_another_layout
    need_platform(:proc)
    with_reader do |read|
      overwrite(8, [9].pack("L"))
      assert_equal "the page has layout 9, and this version of Abaca reads layout 5",
                   assert_raises(Abaca::Error) { Abaca::Page.of(Process.pid) }.message
      assert_equal ["layout 9, not 5\n", 1], read.call(Process.pid)
      overwrite(0, "anything")
      assert_equal "this is no page of Abaca's",
                   assert_raises(Abaca::Error) { Abaca::Page.of(Process.pid) }.message
      assert_equal ["no page\n", 1], read.call(Process.pid)
    end
  end

  def test_processes_without_a_page
    need_platform(:proc)
    pid = Process.spawn("sleep", "60")
    assert_equal "process #{pid} has no page: it is no server of Abaca's, or one without workers",
                 assert_raises(Abaca::Error) { Abaca::Page.of(pid) }.message
    Process.kill(:KILL, pid)
    Process.wait(pid)
    assert_raises(Errno::ENOENT) { Abaca::Page.of(pid) }
    assert_raises(ArgumentError) { Abaca::Page.of("no number") }
  end
end
