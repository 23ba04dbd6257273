# frozen_string_literal: true

# also: sanitized

require "test_helper"
require "support/object_counts"
require "abaca/outbox"
require "objspace"
require "socket"

# No garbage in the long run; and the collector, with or without compaction, never takes what is pending.
class OutboxMemoryTest < Minitest::Test
  include ObjectCounts

  SHORT = ("s" * 64).freeze
  LONG = ("l" * 16_384).freeze

  def setup
    @out = Abaca::Outbox.new
  end

  # Bytes that Ruby was told of as newly allocated, with the collector off.
  def allocated(count = 300, &block)
    count.times(&block)
    GC.start
    least(count, :malloc_increase_bytes, &block)
  end

  def assert_free(name, &block)
    assert_in_delta 0, objects(&block), 0.02, name
    assert_in_delta 0, allocated(&block), 1, name
  end

  def test_no_call_makes_an_object
    near, far = UNIXSocket.pair
    buffer = String.new(capacity: 20_000)
    operation = nil
    fill = -> { @out.write_gen(10) { |text| text << "gen" } }
    assert_free("write") { 64.times { @out.write(SHORT) } && @out.shift(4096) }
    assert_free("<<") { 64.times { @out << SHORT } && @out.shift(4096) }
    assert_free("numbers") { @out.write_u32_be(1).write_byte(2).write_f64_le(1.5).shift(13) }
    assert_free("operation") { (@out << SHORT) && (operation = @out.operation(operation)) && @out.shift(64) }
    assert_free("peek") { (@out << SHORT) && @out.peek(16_384, buffer) && @out.shift(64) }
    assert_free("serialize") { (@out << SHORT) && @out.serialize { 64 } }
    assert_free("write_gen") { fill.call && @out.shift(3) }
    assert_free("drain") { (@out << SHORT) && @out.drain }
    assert_free("schedule") { @out.schedule(LONG) && @out.shift(16_384) }
    assert_free("schedule and operation") do
      @out.schedule(LONG) && (operation = @out.operation(operation)) && @out.shift(16_384)
    end
    assert_free("write_to") { @out.schedule(LONG) && @out.write_to(near) && far.read_nonblock(20_000, buffer) }
    assert_in_delta 0, objects { @out.wait_writable }, 0.02
  ensure
    [near, far].each(&:close)
  end

  # Up to the high watermark and down again.
  def test_buffers_are_used_again
    assert_free("64 KiB") { 8.times { @out.write(LONG, 0, 8192) } && @out.shift(65_536) }
  end

  def test_memory_that_is_told
    before = ObjectSpace.memsize_of(@out)
    @out << ("x" * 10_000)
    assert_operator ObjectSpace.memsize_of(@out), :>=, before + 10_000
    out = Abaca::Outbox.new
    out << ("x" * 5_000_000)
    assert_operator ObjectSpace.memsize_of(out), :>=, 5_000_000
    out.drain
    assert_operator ObjectSpace.memsize_of(out), :<, 100_000
  end

  # A String of an operation that shares a long one's bytes is not copied to make room for a short one.
  def test_a_shared_string_is_not_filled_again
    long = ("é" * 500_000).freeze
    @out.schedule(long)
    operation = @out.operation
    shared = operation.last.first
    @out.shift(long.bytesize)
    @out << "short"
    assert_equal [:writev, ["short"]], @out.operation(operation)
    assert_equal [long.b, true], [shared, shared.frozen?]
    assert_operator ObjectSpace.memsize_of(operation.last.first), :<, 10_000
    assert_predicate long, :valid_encoding?
  end

  # The lists of slices and of waiters count as well: 32 bytes a slice, more a block.
  def test_memory_of_lists_is_told
    before = ObjectSpace.memsize_of(@out)
    1000.times { @out.schedule(LONG) }
    slices = ObjectSpace.memsize_of(@out)
    assert_operator slices, :>=, before + 32_000
    1000.times { @out.flush { nil } }
    assert_operator ObjectSpace.memsize_of(@out), :>=, slices + 40_000
  end

  # Abandoned outboxes with bytes in them do not pile up.
  def test_outboxes_are_collected
    rss = -> { File.read("/proc/self/statm").split[1].to_i * 4096 }
    2000.times { Abaca::Outbox.new << ("x" * 50_000) }
    before = rss.call
    8000.times { Abaca::Outbox.new << ("x" * 50_000) }
    assert_operator rss.call - before, :<, 150 << 20
  end

  # Strings without other references, some of them inside their slot.
  def fill(out)
    (0...200).map do |i|
      size = [520, 600, 5000, 100][i % 4]
      text = "#{i}:".ljust(size, (i % 10).to_s)
      copy = text.dup << ""
      out.schedule(i.odd? ? text.freeze : text)
      copy
    end.join
  end

  def test_the_collector_leaves_what_is_pending
    all = fill(@out)
    10.times { GC.start && Array.new(1000) { "garbage" * 20 } }
    assert_equal all, @out.to_s
    seen = 0
    @out.flush { seen += 1 }
    GC.start
    @out.shift(all.bytesize)
    assert_equal 1, seen
  end

  # An old outbox has young strings.
  def test_minor_collections
    4.times { GC.start }
    all = fill(@out)
    @out.flush { all = :flushed }
    5.times { GC.start(full_mark: false) && Array.new(2000) { "garbage" * 20 } }
    assert_equal all, @out.to_s
    @out.drain
    assert_equal :flushed, all
  end

  def test_compaction
    skip "there is no compaction here" unless GC.respond_to?(:verify_compaction_references)
    all = fill(@out)
    seen = []
    @out.flush { seen << :flushed }
    thread = Thread.new { @out.wait_writable }
    Thread.pass until thread.stop?
    GC.verify_compaction_references(toward: :empty)
    assert_equal all, @out.to_s
    got = +"".b
    @out.serialize do |slices|
      GC.compact
      slices.sum { |slice| (got << slice) && slice.bytesize }
    end
    assert_equal [all, [:flushed], true], [got, seen, thread.value]
  end

  def test_stress
    all = nil
    got = +"".b
    GC.stress = true
    out = Abaca::Outbox.new(buffer: 100)
    out << "copied"
    out.schedule("x" * 600)
    out.write_gen(10) { |buffer| buffer << "made" }
    out.write_u64_le((1 << 64) - 1)
    out.flush { all = :flushed }
    out.operation(out.operation)
    out.serialize { |slices| slices.sum { |slice| (got << slice) && slice.bytesize } }
  ensure
    GC.stress = false
    assert_equal :flushed, all
    assert_equal "copied#{'x' * 600}made".b + ("\xFF".b * 8), got
  end
end
