# frozen_string_literal: true

# Writes anything into the page of a process of this user's, as a fault in an extension may: its bytes alone are known,
# and where the head and each slot begin (ext/abaca/page/layout.h).
class SpoiledPage
  WAYS = %i[zeros ones any likely flips].freeze
  # Of a slot: what follows on the first line, which has its process and state, and its figures.
  LINE = 64
  # The head.
  HEAD = 4096
  # How many bytes :flips changes of each 1,000.
  FLIPS = 20
  private_constant :HEAD, :FLIPS

  # @param pid [Integer] has the page
  def initialize(pid)
    @file = File.open(Abaca::Page.place(pid), "r+b")
    @start, @size = @file.pread(8, 12).unpack("L2")
    @sound = {}
  end

  # @param way [Symbol] of WAYS. :likely has many a flag that is set, and small numbers; with :flips most bytes are what
  #   they were at first
  # @param seed [Integer]
  # @param slots [Array<Integer>]
  # @param from [Integer] bytes at the beginning of each slot that stay
  def spoil(way, seed, slots: [0, 1], from: 0)
    random = Random.new(seed)
    slots.each do |slot|
      bytes = way == :flips ? flipped(random, slot) : self.class.bytes(way, random, @size)
      @file.pwrite(bytes.byteslice(from..), @start + (slot * @size) + from)
    end
  end

  # Only the head: where the page is mapped it has been read, and nobody finds it any more.
  def spoil_head(way, seed) = @file.pwrite(self.class.bytes(way, Random.new(seed), HEAD), 0)

  def close = @file.close

  # So many bytes of a kind.
  def self.bytes(way, random, size)
    case way
    when :zeros then "\0".b * size
    when :ones then "\xff".b * size
    when :likely then random.bytes(size).tr("\0-\x54".b, "\0").tr("\x55-\xaa".b, "\2")
    else random.bytes(size)
    end
  end

  private

  # What nobody has used stays 0.
  def flipped(random, slot)
    bytes, used = sound(slot)
    bytes = bytes.dup
    used.sample(used.size * FLIPS / 1000, random:).each { |at| bytes.setbyte(at, random.rand(256)) }
    bytes
  end

  # What stood there at first, and where it was not 0.
  def sound(slot)
    @sound[slot] ||= begin
      bytes = @file.pread(@size, @start + (slot * @size))
      [bytes, bytes.each_byte.with_index.filter_map { |byte, at| at unless byte.zero? }]
    end
  end
end
