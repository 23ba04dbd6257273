# frozen_string_literal: true

# also: sanitized

require "test_helper"
require "abaca/outbox"
require "stringio"
require "tempfile"

# What comes out of an outbox, and when: operation, shift, serialize, peek, flush, yield, close, drain.
class OutboxTakeTest < Minitest::Test
  def setup
    @out = Abaca::Outbox.new
    @seen = []
  end

  def note(name) = @out.flush { |reason| @seen << [name, reason] }

  # --- operation and shift ---

  def test_nothing_to_do
    assert_equal [[:yield], [:yield]], [@out.operation, @out.operation]
    @out << ""
    @out.schedule("")
    assert_equal [[:yield], 0, false], [@out.operation, @out.pending_bytes, @out.pending?]
    @out.close
    assert_equal [[:close], [:close]], [@out.operation, @out.operation]
  end

  def test_copies_are_one_slice
    %w[te st te st t e].each { |piece| @out << piece }
    assert_equal [:writev, ["testtestte"]], @out.operation
  end

  # With a buffer of one byte, as small as can be.
  def test_small_buffers
    out = Abaca::Outbox.new(buffer: 1)
    %w[te s].each { |piece| out << piece }
    assert_equal [:writev, %w[t e s]], out.operation
  end

  def test_operation_is_idempotent_until_shift
    @out << "copied "
    @out.schedule("l" * 600)
    first = @out.operation
    assert_equal first, @out.operation
    assert_same @out, @out.shift(3)
    assert_equal [:writev, ["ied ", "l" * 600]], @out.operation
    @out.shift(5)
    assert_equal [:writev, ["l" * 599]], @out.operation
    assert_equal "copied ", first.last.first
    first.last.first << "is the caller's"
    assert_equal "l" * 599, @out.to_s
    @out.shift(599)
    assert_equal [:yield], @out.operation
  end

  def test_slices_can_be_joined
    @out << "é".b << "\xFF".b
    @out.schedule("→" * 300)
    @out.shift(1)
    slices = @out.operation.last
    assert_equal [Encoding::BINARY], slices.map(&:encoding).uniq
    assert_equal @out.to_s, slices.join
  end

  def test_no_more_than_a_system_call_takes
    100.times { |i| @out.schedule(i.chr * 600) }
    assert_equal 64, @out.operation.last.size
    out = Abaca::Outbox.new
    out.schedule("x" * 3_000_000)
    assert_equal [1 << 20], out.operation.last.map(&:bytesize)
    assert_equal 3_000_000, out.to_s.bytesize
  end

  def test_an_operation_that_is_used_again
    @out << "one"
    operation = @out.operation
    slices = operation.last
    string = slices.first
    @out.shift(3)
    @out << "two, longer"
    assert_same operation, @out.operation(operation)
    assert_equal [:writev, ["two, longer"]], operation
    assert_same slices, operation.last
    assert_same string, slices.first
    @out.shift(11)
    Tempfile.create do |file|
      file.write("file")
      file.flush
      @out.schedule_file(file)
      assert_equal [:file, file, 0, 4], @out.operation(operation)
      @out.drain
    end
    assert_equal [:yield], @out.operation(operation)
    @out << "x"
    assert_equal [:writev, ["x"]], @out.operation([nil, ["frozen", 7, 8].freeze])
    assert_equal [:writev, ["x"]], @out.operation([1, ["frozen", 7, 8], 3])
    assert_raises(TypeError) { @out.operation("text") }
    assert_raises(FrozenError) { @out.operation([].freeze) }
  end

  def test_shift_of_what_is_not_pending
    @out << "abc"
    [4, -1, 1 << 70, -(1 << 70)].each { |count| assert_raises(ArgumentError) { @out.shift(count) } }
    [nil, 1.0, "1"].each { |count| assert_raises(TypeError) { @out.shift(count) } }
    assert_equal "abc", @out.to_s
    @out.shift(0).shift(3)
    assert_raises(ArgumentError) { @out.shift(1) }
  end

  # --- yield ---

  def test_yield_once
    @out << "a"
    assert_same @out, @out.yield_once
    assert_equal [[:yield], [:writev, ["a"]]], [@out.operation, @out.operation]
    @out.yield_once.flush
    assert_equal :writev, @out.operation.first
    @out.yield_once
    note(:flush)
    assert_equal :writev, @out.operation.first
    @out.yield_once
    @out.close
    assert_equal :writev, @out.operation.first
    @out.yield_once
    assert_equal :writev, @out.operation.first
  end

  # --- flush ---

  def test_flush
    note(:empty)
    assert_equal [%i[empty nothing_pending]], @seen
    @out << "hello"
    note(:first)
    @out << " world"
    note(:second)
    note(:third)
    @out.shift(4)
    assert_equal 1, @seen.size
    @out.shift(1)
    assert_equal %i[first shift], @seen.last
    @out.shift(6)
    assert_equal [%i[second shift], %i[third shift]], @seen.last(2)
    @out << "dropped"
    note(:fourth)
    @out.close
    note(:after_close)
    assert_equal 7, @out.drain
    assert_equal [%i[fourth drain], %i[after_close drain]], @seen.last(2)
    note(:at_once)
    assert_equal %i[at_once nothing_pending], @seen.last
  end

  def test_counters_are_right_in_a_callback
    @out << "abcdef"
    @out.flush { @seen << [@out.pending_bytes, @out.to_s, @out.pending?] }
    @out << "gh"
    @out.shift(7)
    assert_equal [[1, "h", true]], @seen
  end

  def test_a_callback_that_raises
    @out << "abc"
    note(:first)
    @out.flush { raise "second" }
    note(:third)
    @out.flush { raise "fourth" }
    note(:fifth)
    assert_equal "second", assert_raises(RuntimeError) { @out.shift(3) }.message
    assert_equal [%i[first shift]], @seen
    assert_equal 0, @out.pending_bytes
    assert_equal "fourth", assert_raises(RuntimeError) { @out.shift(0) }.message
    assert_equal [%i[first shift], %i[third shift]], @seen
    note(:sixth)
    assert_equal [%i[fifth shift], %i[sixth nothing_pending]], @seen.last(2)
    assert_equal 0, @out.drain
    assert_equal 4, @seen.size
  end

  def test_a_callback_that_is_left
    @out << "abc"
    catch(:out) do
      @out.flush { throw :out }
      note(:later)
      @out.shift(3)
    end
    assert_empty @seen
    @out.flush
    assert_equal [%i[later shift]], @seen
  end

  # A callback that uses the outbox in every way.
  def test_reentrant_callbacks
    @out << "abc"
    @out.flush do
      @out << "def"
      note(:inner)
      @out.flush { @out << "more" }
      @out.shift(1)
    end
    note(:outer)
    @out.shift(3)
    assert_equal "ef", @out.to_s
    assert_equal [%i[outer shift]], @seen
    @out.shift(2)
    assert_equal [%i[outer shift], %i[inner shift]], @seen
    assert_equal "more", @out.to_s
    @out.flush { @out.drain }
    note(:dropped)
    @out << "and this"
    @out.shift(4)
    assert_equal [%i[dropped shift], 0], [@seen.last, @out.pending_bytes]
    @out << "x"
    @out.flush { @out.close }
    @out.shift(1)
    assert_equal [:close], @out.operation
  end

  def test_nested_shifts_keep_the_order
    @out << "abc"
    @out.flush { @out.shift(1) && (@seen << 1) }
    @out << "d"
    @out.flush { @seen << 2 }
    @out << "e"
    @out.flush { @seen << 3 }
    @out.shift(3)
    assert_equal [[1, 2], "e"], [@seen, @out.to_s]
  end

  # --- close and drain ---

  def test_close_comes_after_what_is_pending
    @out << "abc"
    @out.close
    assert_equal [:writev, ["abc"]], @out.operation
    @out.shift(2)
    assert_equal [:writev, ["c"]], @out.operation
    @out.shift(1)
    assert_equal [:close], @out.operation
  end

  def test_drain_of_an_open_outbox
    assert_equal 0, @out.drain
    @out << "abc"
    @out.schedule("x" * 600)
    assert_equal [603, 0], [@out.drain, @out.drain]
    @out << "goes on"
    assert_equal "goes on", @out.to_s
  end

  # --- serialize ---

  def test_serialize
    @out << "abc"
    @out.schedule("l" * 600)
    all = +""
    result = @out.serialize do |slices|
      slices.each { |slice| all << slice }
      slices.sum(&:bytesize)
    end
    assert_equal [:yield, "abc#{'l' * 600}", 0], [result, all, @out.pending_bytes]
    assert_equal :yield, @out.serialize { flunk }
    @out << "x"
    @out.close
    assert_equal :close, @out.serialize { 1 }
    assert_equal :close, @out.serialize { flunk }
  end

  def test_serialize_in_parts
    @out << "abcdef"
    parts = []
    take = proc { |slices| (parts << slices.join) && [2, slices.join.size].min }
    assert_equal %i[yield yield yield], Array.new(3) { @out.serialize(&take) }
    assert_equal %w[abcdef cdef ef], parts
    @out << "x"
    assert_equal :yield, @out.serialize { 0 }
    @out.yield_once
    assert_equal :yield, @out.serialize { flunk }
    assert_equal "x", @out.to_s
  end

  # What the block does to the Array and its Strings is of no consequence for the next one.
  def test_serialize_with_slices_that_were_spoilt
    [:freeze, :clear, ->(slices) { slices.each(&:freeze) }, lambda { |slices|
      slices.replace([nil, 1]).freeze
    }].each do |spoil|
      @out << "abc"
      @out.serialize { |slices| spoil.to_proc.call(slices) && 0 }
      @out << "def"
      @out.serialize do |slices|
        assert_equal %w[abcdef], slices
        6
      end
    end
  end

  def test_serialize_for_a_consumer_that_is_closed
    @out << "abc"
    note(:flush)
    @out.flush { @out << "cannot be queued any more" }
    assert_raises(IOError) { @out.serialize { :closed } }
    assert_equal [%i[flush drain]], @seen
    assert_equal [true, 0], [@out.closed?, @out.pending_bytes]
    assert_equal :close, @out.serialize { flunk }
    out = Abaca::Outbox.new << "x"
    assert_equal :close, out.serialize { :closed }
  end

  def test_serialize_with_a_wrong_result
    @out << "abc"
    [nil, 4, -1, "3", 3.0, :close, 1 << 70].each do |result|
      assert_raises(ArgumentError, result.inspect) { @out.serialize { result } }
    end
    assert_raises(ZeroDivisionError) { @out.serialize { 1 / 0 } }
    @out.serialize { break }
    assert_equal "abc", @out.to_s
    assert_raises(LocalJumpError) { @out.serialize }
    assert_equal :yield, @out.serialize { 3 }
  end

  def test_serialize_reads_files
    Tempfile.create do |file|
      file.write(Random.new(1).bytes(200_000))
      file.flush
      @out << "before"
      @out.schedule_file(file, 10, 150_000)
      @out << "after"
      sizes = []
      all = +"".b
      @out.serialize do |slices|
        slices.each do |slice|
          all << slice
        end && (sizes << slices.sum(&:bytesize)) && sizes.last
      end
      assert_equal "before".b + File.binread(file.path, 150_000, 10) + "after".b, all
      assert_operator sizes.max, :<=, 65_536
    end
  end

  def test_a_file_that_became_shorter_or_was_closed
    Tempfile.create do |file|
      file.write("0123456789")
      file.flush
      @out.schedule_file(file)
      @out << "x"
      file.truncate(4)
      assert_raises(EOFError) { @out.to_s }
      assert_raises(EOFError) { @out.peek(5) }
      assert_equal "0123", @out.peek(4)
      file.close
      assert_raises(IOError) { @out.serialize { flunk } }
      assert_raises(IOError) { @out.write_to($stderr) }
      assert_equal 11, @out.drain
    end
  end

  def test_only_one_takes_at_a_time
    @out << "abc"
    calls = [-> { @out.shift(1) }, -> { @out.serialize { 1 } }, -> { @out.write_to(StringIO.new) }]
    refused = []
    @out.serialize do |slices|
      calls.each { |call| refused << assert_raises(Abaca::Outbox::Busy, &call) }
      assert_equal [[:writev, slices], slices.join, slices.join[0, 2]], [@out.operation, @out.to_s, @out.peek(2)]
      @out << "def" if slices == ["abc"] # that is no taking
      3
    end
    assert_kind_of Abaca::Error, refused.first
    assert_equal [6, ""], [refused.size, @out.to_s]
  end

  def test_drain_in_the_middle_of_serialize
    @out << "abc"
    parts = []
    @out.serialize do |slices|
      parts << slices.join
      @out.drain if parts.size == 1
      @out << "new" if parts.size == 1
      3
    end
    assert_equal [%w[abc new], 0], [parts, @out.pending_bytes]
  end

  # --- peek and to_s ---

  def test_peek
    @out << "abc"
    @out.schedule("l" * 600)
    assert_equal ["", "ab", "abc#{'l' * 5}", "abc#{'l' * 600}"], [0, 2, 8, 1 << 40].map { |length| @out.peek(length) }
    buffer = +"old text"
    assert_same buffer, @out.peek(4, buffer)
    assert_equal ["abcl", Encoding::BINARY], [buffer, buffer.encoding]
    assert_equal 603, @out.pending_bytes
    @out.drain
    assert_equal "", @out.peek(10, buffer)
    assert_raises(ArgumentError) { @out.peek(-1) }
    assert_raises(RangeError) { @out.peek(1 << 70) }
    assert_raises(FrozenError) { @out.peek(1, "frozen") }
    assert_raises(TypeError) { @out.peek(1, 1) }
  end

  def test_to_s_is_a_copy
    @out << "abc"
    text = @out.to_s
    text << "changed"
    assert_equal ["abc", Encoding::BINARY], [@out.to_s, @out.to_s.encoding]
  end
end
