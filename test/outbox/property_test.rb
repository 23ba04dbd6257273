# frozen_string_literal: true

# also: sanitized

require "test_helper"
require "abaca/outbox"
require "stringio"
require "tempfile"

# Any partition of any string into writes, schedules and files, with any sequence of partial shifts in
# between, gives back the string, and the counters always agree.
class OutboxPropertyTest < Minitest::Test
  ROUNDS = 150

  # Plays one round: what goes in is a prefix of @source, what comes out is compared with it.
  class Round
    attr_reader :seen

    def initialize(seed, file)
      @random = Random.new(seed)
      @source = file.path.then { |path| File.binread(path) }.freeze
      @file = file
      room = @random.rand(1..5000)
      @out = Abaca::Outbox.new(buffer: [1, 7, 64, room, 4096][seed % 5])
      @in = 0
      @got = +"".b
      @flushed = []
      @marks = []
    end

    def play(steps)
      steps.times do
        put([3, 50, 700, 9000][@random.rand(4)])
        mark if @random.rand(6).zero?
        take if @random.rand(3).zero?
        agree
      end
      finish
    end

    private

    def put(most)
      length = @random.rand([most, @source.bytesize - @in].min + 1)
      part = @source.byteslice(@in, length)
      case @random.rand(8)
      when 0 then @out.schedule(part.freeze)
      when 1 then @out.schedule(part).tap { part.replace("changed") }
      when 2 then @out.schedule(@source, @in, length)
      when 3 then @out.schedule_file(@file, @in, length)
      when 4 then @out.write_gen(length + @random.rand(5)) { |buffer| buffer << part }
      when 5 then part.each_byte { |byte| @out.write_byte(byte) }
      when 6 then @out.write(@source, @in, length)
      else @out << part
      end
      @in += length
    end

    def mark
      threshold = @in
      @marks << threshold
      @out.flush { @flushed << [threshold, @got.bytesize] }
    end

    def take
      case @random.rand(4)
      when 0 then @out.serialize { |slices| receive(slices.join, @random.rand(slices.sum(&:bytesize) + 1)) }
      when 1 then receive(@out.peek(@random.rand(5000))).then { |count| @out.shift(count) }
      when 2 then operate
      else @out.write_to(@sink ||= Sink.new(@got)) if @random.rand(4).zero?
      end
    end

    # Appends to @got before it is shifted, as flush callbacks look at it.
    def receive(bytes, count = bytes.bytesize)
      @got << bytes.byteslice(0, count)
      count
    end

    def operate
      kind, what, offset, length = @out.operation(@operation)
      bytes = case kind
              when :writev then what.join
              when :file then what.pread([length, 100_000].min, offset)
              else ""
              end
      count = receive(bytes, @random.rand(bytes.bytesize + 1))
      @out.shift(count)
    end

    Sink = Struct.new(:got) do
      def write(text) = (got << text) && text.bytesize
    end

    def agree
      raise "pending" unless @out.pending_bytes == @in - @got.bytesize
      raise "pending?" unless @out.pending? == @in > @got.bytesize
      raise "bytes" unless @source.start_with?(@got)
      raise "late marks" unless @flushed.size == @marks.count { |threshold| threshold <= @got.bytesize }
      raise "free_bytes" unless @out.free_bytes.between?(0, 1 << 20)
    end

    def finish
      raise "to_s" unless @out.to_s == @source.byteslice(@got.bytesize, @in - @got.bytesize)

      @out.close
      @out.write_to(Sink.new(@got))
      agree
      raise "the end" unless @got.bytesize == @in && @out.operation == [:close]
      raise "marks" unless @flushed.map(&:first) == @marks
      raise "too early" unless @flushed.all? { |threshold, got| got >= threshold }
    end
  end

  def test_any_partition_gives_the_string_back
    Tempfile.create do |file|
      file.binmode
      file.write(Random.new(17).bytes(300_000))
      file.flush
      ROUNDS.times do |seed|
        Round.new(seed, file).play(60)
        pass
      rescue StandardError => e
        flunk "seed #{seed}: #{e.full_message(highlight: false)}"
      end
    end
  end
end
