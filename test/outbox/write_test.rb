# frozen_string_literal: true

# also: sanitized

require "test_helper"
require "abaca/outbox"
require "stringio"
require "tempfile"

# What goes into an outbox, and what is refused: then nothing was queued.
class OutboxWriteTest < Minitest::Test
  def setup
    @out = Abaca::Outbox.new
  end

  # Checks that the block raises, and leaves the outbox as it was.
  def assert_refused(error, out = @out)
    before = [out.to_s, out.pending_bytes, out.closed?]
    raised = assert_raises(error) { yield out }
    assert_equal before, [out.to_s, out.pending_bytes, out.closed?], raised.message
    raised
  end

  def test_options
    assert_equal [4096, 65_536, 16_384], [@out.free_bytes, @out.high_watermark, @out.low_watermark]
    out = Abaca::Outbox.new(buffer: 10, high_watermark: 100)
    assert_equal [10, 100, 25], [out.free_bytes, out.high_watermark, out.low_watermark]
    assert_equal 0, Abaca::Outbox.new(high_watermark: 0).low_watermark
    assert_equal 7, Abaca::Outbox.new(high_watermark: 9, low_watermark: 7).low_watermark
    [{ buffer: 0 }, { buffer: -1 }, { buffer: 17 << 20 }, { high_watermark: -1 }, { low_watermark: -1 },
     { high_watermark: 9, low_watermark: 10 }, { buffers: 1 }, { buffer: 1 << 70 }, { buffer: -1 << 70 },
     { high_watermark: 1 << 63 }, { low_watermark: 1 << 64 }].each do |options|
      assert_raises(ArgumentError, options.inspect) { Abaca::Outbox.new(**options) }
    end
    assert_raises(TypeError) { Abaca::Outbox.new(buffer: "big") }
    assert_raises(ArgumentError) { Abaca::Outbox.new(4096) }
  end

  def test_life_of_the_object
    assert_raises(TypeError) { @out.dup }
    assert_raises(TypeError) { @out.clone }
    assert_raises(RuntimeError) { Abaca::Outbox.allocate << "x" }
    assert_raises(RuntimeError) { @out.send(:initialize) }
    subclass = Class.new(Abaca::Outbox)
    assert_equal "x", (subclass.new << "x").to_s
    @out << "x"
    @out.freeze
    assert_equal "x", @out.to_s
    calls = [-> { @out << "y" }, -> { @out.shift(1) }, -> { @out.drain }, -> { @out.close }, -> { @out.flush }]
    calls.each { |call| assert_raises(FrozenError, &call) }
  end

  def test_write
    assert_equal [3, 0, 3, 2, 0], [@out.write("abc"), @out.write(""), @out.write("xdefx", 1, 3),
                                   @out.write("xxgh", 2), @out.write("abc", 3)]
    assert_equal "abcdefgh".b, @out.to_s
    assert_equal [8, true, 4088], [@out.pending_bytes, @out.pending?, @out.free_bytes]
    assert_equal 4, @out.write("é→".dup, 1)
    assert_equal "abcdefgh\xA9→".b, @out.to_s
  end

  def test_what_is_written_is_a_copy
    text = +"before"
    @out << text
    text.replace("after!")
    assert_equal "before", @out.to_s
  end

  def test_append
    assert_same @out, @out << "a" << :b << 1 << nil << 2.5
    assert_equal "ab12.5", @out.to_s
    assert_refused(NoMethodError) { |out| out << BasicObject.new }
    other = Abaca::Outbox.new << "from another one"
    assert_equal "ab12.5from another one", (@out << other).to_s
  end

  # More than a buffer holds, and more than several do.
  def test_longer_than_the_buffer
    [1, 3, 64, 4096].each do |buffer|
      out = Abaca::Outbox.new(buffer: buffer)
      text = Random.new(buffer).bytes(100_000)
      assert_equal 100_000, out.write(text)
      out.write("x")
      assert_equal text + "x".b, out.to_s
    end
  end

  WRONG_PARTS = [[4], [-1], [0, 4], [1, 3], [3, 1], [0, -1], [1 << 70], [0, 1 << 70], [-(1 << 70)],
                 [(1 << 63) - 1, (1 << 63) - 1]].freeze

  def test_parts_out_of_range
    @out << "kept"
    long = "x" * 600
    WRONG_PARTS.each do |part|
      assert_refused(RangeError) { |out| out.write("abc", *part) }
      assert_refused(RangeError) { |out| out.schedule("abc", *part) }
    end
    [[601], [0, 601], [600, 1], [-1, 5]].each { |part| assert_refused(RangeError) { |out| out.schedule(long, *part) } }
  end

  def test_wrong_types
    [nil, 1, :symbol, [], Object.new].each do |object|
      assert_refused(TypeError) { |out| out.write(object) }
      assert_refused(TypeError) { |out| out.schedule(object) }
    end
    assert_refused(TypeError) { |out| out.write("abc", "1") }
    assert_refused(TypeError) { |out| out.write("abc", nil) }
    assert_refused(TypeError) { |out| out.write("abc", 0, "1") }
    assert_refused(ArgumentError, &:write)
    assert_refused(ArgumentError) { |out| out.write("abc", 0, 1, 2) }
  end

  # An argument that changes the string while it is converted.
  class Spoiler
    def initialize(text) = @text = text

    def to_int
      @text.replace("")
      1
    end
  end

  def test_conversions_that_change_the_string
    %i[write schedule].each do |name|
      text = "x" * 600
      assert_refused(RangeError) { |out| out.public_send(name, text, Spoiler.new(text)) }
      text = "x" * 600
      assert_refused(RangeError) { |out| out.public_send(name, text, 0, Spoiler.new(text)) }
    end
  end

  # --- numbers ---

  PACKED = { write_u16_be: "n", write_u16_le: "v", write_u32_be: "N", write_u32_le: "V", write_u64_be: "Q>",
             write_u64_le: "Q<" }.freeze

  def test_integers
    PACKED.each do |name, format|
      bits = name[/\d+/].to_i
      [0, 1, 0x0102030405060708 & ((1 << bits) - 1), (1 << (bits - 1)), (1 << bits) - 1].each do |number|
        out = Abaca::Outbox.new
        assert_same out, out.public_send(name, number)
        assert_equal [number].pack(format), out.to_s, "#{name} #{number}"
      end
    end
  end

  def test_48_bits
    @out.write_u48_be(0x010203040506).write_u48_le(0x010203040506).write_u48_be((1 << 48) - 1)
    assert_equal [1, 2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1, *([255] * 6)], @out.to_s.bytes
  end

  def test_bytes
    256.times { |byte| assert_same @out, @out.write_byte(byte) }
    assert_equal (0..255).to_a, @out.to_s.bytes
  end

  def test_integers_out_of_range
    [8, 16, 32, 48, 64].each do |bits|
      names = bits == 8 ? [:write_byte] : [:"write_u#{bits}_be", :"write_u#{bits}_le"]
      names.each do |name|
        [-1, 1 << bits, -(1 << 62), -(1 << 70), 1 << 64, 1 << 200].each do |number|
          assert_refused(RangeError) { |out| out.public_send(name, number) }
        end
        [nil, 1.0, "1", Rational(1)].each do |object|
          assert_refused(TypeError) { |out| out.public_send(name, object) }
        end
      end
    end
  end

  def test_floats
    { write_f32_be: "g", write_f32_le: "e", write_f64_be: "G", write_f64_le: "E" }.each do |name, format|
      [0.0, -0.0, 1.5, -1e300, 1e-310, Float::INFINITY, -Float::INFINITY, 3, Rational(1, 3)].each do |number|
        out = Abaca::Outbox.new
        assert_same out, out.public_send(name, number)
        assert_equal [number].pack(format), out.to_s, "#{name} #{number}"
      end
      out = Abaca::Outbox.new.public_send(name, Float::NAN)
      assert_predicate out.to_s.unpack1(format), :nan?
      [nil, "1.5", :x].each { |object| assert_refused(TypeError) { |box| box.public_send(name, object) } }
    end
  end

  # --- write_gen ---

  def test_write_gen
    made = @out.write_gen(10) do |buffer|
      assert_equal ["", Encoding::BINARY], [buffer, buffer.encoding]
      [1, 2].pack("nN", buffer: buffer)
      buffer << "é"
    end
    assert_equal 8, made
    assert_equal "\0\1\0\0\0\2\xC3\xA9".b, @out.to_s
    assert_equal 0, @out.write_gen(10) { nil }
    assert_equal 3, @out.write_gen(3) { |buffer| buffer << "abc" }
    assert_equal 0, @out.write_gen(0) { |buffer| assert_empty buffer }
    assert_equal "\0\1\0\0\0\2\xC3\xA9abc".b, @out.to_s
  end

  def test_write_gen_that_fails
    @out << "kept"
    assert_refused(ZeroDivisionError) { |out| out.write_gen(10) { |buffer| buffer << (1 / 0) } }
    assert_refused(ArgumentError) { |out| out.write_gen(2) { |buffer| buffer << "abc" } }
    assert_refused(RangeError) { |out| out.write_gen(-1) { flunk } }
    assert_refused(RangeError) { |out| out.write_gen(1 << 70) { flunk } }
    assert_refused(TypeError) { |out| out.write_gen("1") { flunk } }
    assert_refused(LocalJumpError) { |out| out.write_gen(1) }
    @out.write_gen(10) { |buffer| buffer << "partial" and break }
    assert_equal "kept", @out.to_s
    assert_equal 1, @out.write_gen(1) { |buffer| buffer << "!" }
    assert_equal "kept!", @out.to_s
  end

  # The block does with the outbox and with its buffer what it likes.
  def test_write_gen_is_reentrant
    kept = nil
    @out << "1"
    @out.write_gen(10) do |buffer|
      buffer << "4"
      @out << "2"
      @out.write_gen(10) { |inner| inner << "3" }
      @out.shift(1)
      kept = buffer
    end
    kept << "changed later"
    @out.write_gen(10) { |buffer| buffer << "5" and buffer.freeze }
    @out.write_gen(10) { |buffer| buffer.force_encoding("UTF-8").replace("6") }
    @out.write_gen(10) { |buffer| buffer << "7" }
    assert_equal "234567", @out.to_s
    assert_refused(IOError) do |out|
      out.write_gen(10) { |buffer| buffer << "x" and out.drain.then { raise IOError } }
    ensure
      out << "234567"
    end
  end

  # --- schedule ---

  def test_schedule
    assert_equal [5, 600, 0, 550, 512],
                 [@out.schedule("short"), @out.schedule("l" * 600), @out.schedule(""),
                  @out.schedule(("x" * 50) + ("m" * 550) + "x", 50, 550), @out.schedule("e" * 1024, 512)]
    @out << "end"
    assert_equal "short#{'l' * 600}#{'m' * 550}#{'e' * 512}end", @out.to_s
    assert_equal ["short", "l" * 600, "m" * 550, "e" * 512, "end"], @out.operation.last
  end

  # Whatever is done with the string afterwards.
  def test_changing_a_scheduled_string
    [20, 600, 5000, 100_000].each do |size|
      changes = [->(s) { s.replace("z" * size) }, ->(s) { s.setbyte(0, 0) }, lambda(&:clear), ->(s) { s << "more" },
                 lambda(&:upcase!), ->(s) { s[1, 5] = "" }, ->(s) { s.insert(3, "inside") }]
      changes.each do |change|
        text = "a" * size
        out = Abaca::Outbox.new
        out.schedule(text)
        out.schedule(text, size / 2)
        change.call(text)
        GC.start
        assert_equal "a" * (size + size - (size / 2)), out.to_s
      end
    end
  end

  def test_a_frozen_string_comes_out_as_itself
    binary = ("b" * 600).b.freeze
    ascii = ("a" * 600).freeze
    text = ("é" * 600).freeze
    [binary, ascii, text].each { |string| @out.schedule(string) }
    slices = @out.operation.last
    assert_same binary, slices[0]
    assert_same ascii, slices[1]
    assert_equal [text.b, Encoding::BINARY], [slices[2], slices[2].encoding]
    assert_equal binary + ascii + text.b, slices.join
  end

  def test_schedule_a_file
    Tempfile.create do |file|
      file.write("0123456789")
      file.flush
      file.seek(3)
      assert_equal [10, 4, 3, 0], [@out.schedule_file(file), @out.schedule_file(file, 6),
                                   @out.schedule_file(file, 2, 3), @out.schedule_file(file, 10)]
      @out << "end"
      assert_equal "0123456789" + "6789" + "234" + "end", @out.to_s
      assert_equal [:file, file, 0, 10], @out.operation
      @out.shift(4)
      assert_equal [:file, file, 4, 6], @out.operation
      assert_equal 3, file.pos
    end
  end

  def test_files_that_are_refused
    Tempfile.create do |file|
      file.write("0123456789")
      file.flush
      WRONG_PARTS.map { |part| part == [4] ? [11] : part }.reject { |part| [[0, 4], [1, 3], [3, 1]].include?(part) }
                 .each { |part| assert_refused(RangeError) { |out| out.schedule_file(file, *part) } }
      assert_refused(RangeError) { |out| out.schedule_file(file, 5, 6) }
      File.open(file.path, "w") { |writer| assert_refused(IOError) { |out| out.schedule_file(writer) } }
      file.close
      assert_refused(IOError) { |out| out.schedule_file(file) }
    end
    IO.pipe do |reader, _writer|
      assert_refused(ArgumentError) { |out| out.schedule_file(reader, 0, 1) }
    end
    [StringIO.new("x"), "path", nil, 1].each do |object|
      assert_refused(TypeError) { |out| out.schedule_file(object) }
    end
  end

  # --- after close ---

  def test_after_close
    @out << "kept"
    assert_nil @out.close
    assert_nil @out.close
    assert_predicate @out, :closed?
    Tempfile.create do |file|
      calls = [->(o) { o << "x" }, ->(o) { o << "" }, ->(o) { o.write("x") }, ->(o) { o.schedule("x") },
               ->(o) { o.schedule("x" * 600) }, ->(o) { o.schedule_file(file, 0, 0) }, ->(o) { o.write_byte(1) },
               ->(o) { o.write_u48_le(1) }, ->(o) { o.write_f64_be(1) }, ->(o) { o.write_gen(1) { flunk } }]
      calls.each { |call| assert_refused(IOError, &call) }
    end
    assert_equal "kept", @out.to_s
  end

  def test_write_gen_while_it_is_closed
    assert_raises(IOError) { @out.write_gen(5) { |buffer| buffer << "x" and @out.close } }
    assert_equal [:close], @out.operation
  end
end
