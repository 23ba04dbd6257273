# frozen_string_literal: true

require "test_helper"
require "abaca"
require "json"

# Abaca::Page: what processes tell each other by it.
class PageTest < Minitest::Test
  include Waits

  def setup
    @page = Abaca::Page.create(slots: 3)
    @slot = @page[1]
    @children = []
  end

  def teardown
    @children.each do |pid|
      Process.kill(:KILL, pid)
      Process.wait(pid)
    end
    @page.close
  end

  # Runs the block in a child and returns what it says.
  def in_child
    reader, writer = IO.pipe
    pid = fork do
      reader.close
      writer.write(JSON.generate(yield))
      writer.close
    ensure
      exit!(0)
    end
    writer.close
    answer = reader.read
    Process.wait(pid)
    JSON.parse(answer)
  ensure
    reader.close
  end

  # A child that stays after the block, until the test has ended or reaps it. Returns its pid.
  def child
    reader, writer = IO.pipe
    @children << (pid = fork do
      reader.close
      yield
      writer.close
      sleep
    ensure
      exit!(1)
    end)
    writer.close
    reader.read
    reader.close
    pid
  end

  def reap(pid, signal = :KILL)
    Process.kill(signal, @children.delete(pid))
    Process.wait(pid)
  end

  def complaint(error = Abaca::Error, &) = assert_raises(error, &).message

  def test_slots
    assert_equal [3, 3, 1], [@page.size, @page.to_a.size, @slot.index]
    assert_same @slot, @page[1]
    assert_equal "no slot 3: there are 3", complaint(IndexError) { @page[3] }
    assert_equal "no slot -1: there are 3", complaint(IndexError) { @page[-1] }
    [0, 4097, -1, 1.0, "1", nil].each do |count|
      assert_equal "slots: 1 to 4096, not #{count.inspect}", complaint(ArgumentError) { Abaca::Page.create(slots: count) }
    end
    assert_equal 4096, Abaca::Page.create(slots: 4096).tap(&:close).then { Abaca::Page::MOST }
  end

  def test_an_empty_slot
    assert_equal :empty, @slot.state
    assert_equal [nil] * 4, [@slot.pid, @slot.phase, @slot.started_at, @slot.beat_age]
    assert_equal 0, @slot.figures.fetch(:requests)
    refute_predicate @slot, :mine?
    assert_match(/slot 1 is empty/, complaint { @slot.beat })
  end

  def test_a_worker_claims_its_slot
    before = Time.now
    pid = child do
      @slot.claim(phase: 7)
      @slot.beat
    end
    assert_equal [:booting, pid, 7], [@slot.state, @slot.pid, @slot.phase]
    assert_includes before..Time.now, @slot.started_at
    assert_includes 0.0..60.0, @slot.beat_age
    refute_predicate @slot, :mine?
    assert_equal :empty, @page[0].state
  end

  def test_the_first_heartbeat
    @slot.claim
    assert_nil @slot.beat_age
    @slot.beat
    first = @slot.beat_age
    assert(eventually { @slot.beat_age > first })
    @slot.claim
    assert_nil @slot.beat_age
  end

  def test_states
    @slot.claim
    %i[serving draining ended booting empty].each do |state|
      @slot.state = state
      assert_equal state, @slot.state
    end
    assert_nil @slot.pid
    assert_match(/:busy is not one of/, complaint(ArgumentError) { @slot.state = :busy })
  end

  # A child has what its parent has mapped, but it is another process.
  def test_a_forked_child_that_has_not_claimed
    said, pid = in_child do
      @slot.claim.state = :serving
      [in_child { [complaint { @slot.beat }, complaint { @slot.state = :ended }, @slot.mine?] }, Process.pid]
    end
    assert_equal "slot 1 belongs to process #{pid}: a heartbeat comes from the process that has claimed it", said[0]
    assert_equal "slot 1 belongs to process #{pid}: only it and the page's creator may write its state", said[1]
    refute said[2]
    assert_equal :serving, @slot.state
    assert_nil @slot.beat_age
  end

  def test_a_slot_whose_worker_is_alive
    pid = child { @slot.claim }
    assert_equal "slot 1 belongs to process #{pid}: it is alive", complaint { @slot.claim }
    assert_equal pid, @slot.pid
  end

  def test_a_slot_is_used_again
    first = child { @slot.claim(phase: 1).state = :serving }
    reap(first)
    assert_equal [:serving, first], [@slot.state, @slot.pid] # nobody has said otherwise
    second = child { @slot.claim(phase: 2) }
    assert_equal [:booting, second, 2], [@slot.state, @slot.pid, @slot.phase]
  end

  # Its parent has not asked for its status, so it is still there.
  def test_a_slot_whose_worker_has_ended
    pid = child { @slot.claim }
    Process.kill(:KILL, pid)
    assert(eventually { File.read("/proc/#{pid}/stat").include?(") Z ") })
    assert_match(/it is alive/, complaint { @slot.claim })
    @slot.state = :ended
    @slot.claim
    assert_equal Process.pid, @slot.pid
  end

  def test_a_closed_page
    pid = child { @slot.claim }
    @page.close
    @page.close
    assert_predicate @page, :closed?
    [-> { @page.size }, -> { @page[0] }, -> { @page.sums }, -> { @slot.state }, -> { @slot.claim }, -> { @slot.beat },
     -> { @slot.figures }, -> { @slot.state = :ended }].each do |use|
      assert_equal "the page is closed", complaint(IOError, &use)
    end
    assert_equal 1, @slot.index
    assert_nil Process.wait(pid, Process::WNOHANG)
  end

  # Pages that other tests have left are the collector's.
  def test_it_leaves_no_descriptor
    GC.disable
    others = descriptors.size - 1
    @page.close
    assert_equal others, descriptors.size
    before = descriptors
    page = Abaca::Page.create(slots: 1)
    number, = *descriptors - before
    assert_match(/^flags:\s*0?2\d*$/, File.read("/proc/self/fdinfo/#{number}"), "close on exec")
    page.close
    assert_equal before, descriptors
  ensure
    GC.enable
  end

  private

  # Numbers of those on a page.
  # In memory, or in a file that was removed.
  def descriptors
    Dir.children("/proc/self/fd").select do |fd|
      File.readlink("/proc/self/fd/#{fd}").match?(%r{[:/]abaca-page(?:\.\w{6})? \(deleted\)\z})
    rescue Errno::ENOENT
      false
    end
  end
end
