# frozen_string_literal: true

# The native part looks the error classes up when it is loaded.
require_relative "errors"
require "abaca/abaca"

module Abaca
  # An output queue that makes no garbage: short pieces are copied into memory that is used again and
  # again, long strings and files are borrowed, and everything comes out in order, in as few pieces as
  # possible, made for writev.
  #
  #     require "abaca/outbox"
  #
  #     out = Abaca::Outbox.new
  #     rows.each { |row| out << row.id << "," << row.name << "\n" }
  #     out.schedule(TRAILER)
  #     out.write_to(socket)
  #
  # It needs no server. Abaca's sends an outbox that is a response's body without a copy. What to use when,
  # with a picture, is in docs/outbox.md.
  #
  # Several fibers and threads may use one outbox: each call finds it whole. Only one at a time can take octets
  # out in several steps (#serialize, #write_to); others get Busy. A call that raises has queued nothing.
  # After #close, everything that queues raises IOError.
  class Outbox
    # Somebody else is taking octets out of the outbox.
    class Busy < Error; end

    # @!method initialize(buffer: 4096, high_watermark: 65_536, low_watermark: high_watermark / 4)
    #   With a block: that fills the outbox, when a server sends it as a response's body, or #each is called. See
    #   docs/rack.md.
    #   @yieldparam out [Outbox] itself; what is written is handed on when more than the high watermark is
    #     pending, by #flush, and at the end
    #   @param buffer [Integer] octets of each piece of memory that takes copies
    #   @param high_watermark [Integer] octets that may be pending before #wait_writable waits
    #   @param low_watermark [Integer] octets that may still be pending when it goes on
    #   @raise [ArgumentError] when one is out of range, or low is above high

    # @!group What goes in

    # @!method write(string, offset = 0, length = nil)
    #   Copies octets of a String, up to its end when no length is given.
    #   @return [Integer] how many
    #   @raise [RangeError] when the string has no such part
    #   @raise [IOError] after #close

    # @!method <<(object)
    #   Copies a String, or what an object's to_s gives.
    #   @return [self]
    #   @raise [IOError] after #close

    # @!method schedule(string, offset = 0, length = nil)
    #   Queues octets of a String without a copy. A frozen String costs no object; of any other one the octets
    #   are shared, and changing it afterwards does not change what comes out. Less than 512 octets are copied.
    #   @return [Integer] how many
    #   @raise [RangeError] when the string has no such part
    #   @raise [IOError] after #close

    # @!method schedule_file(io, offset = 0, length = nil)
    #   Queues a part of a regular file, up to its present end when no length is given. It is read, or given
    #   to sendfile, when its turn comes: the IO must be open until then. Its position does not move.
    #   @return [Integer] octets
    #   @raise [RangeError] when the file has no such part
    #   @raise [ArgumentError] for what is no regular file
    #   @raise [IOError] after #close, and for an IO that is closed or cannot be read

    # @!method write_gen(length)
    #   Queues what the block puts into a String.
    #   @param length [Integer] octets that it may make
    #   @yieldparam buffer [String] empty and binary, with room for `length` octets. It is used again for
    #     the next call: keep a copy, if anything. The block may make fewer octets. When it raises, or makes more,
    #     nothing is queued.
    #   @return [Integer] octets that were queued
    #   @raise [ArgumentError] when the block has made more than `length`
    #   @raise [RangeError] for a negative length
    #   @raise [IOError] after #close

    # @!method write_byte(number)
    #   Queues an octet, 0 to 255.
    #   @return [self]
    #   @raise [RangeError, TypeError, IOError]

    # @!method write_u16_be(number)
    #   Queues an unsigned number of 16 bits, the most significant octet first. The same with 32, 48 and
    #   64 bits, and with the least significant one first, is write_u32_be, write_u16_le and so on.
    #   @return [self]
    #   @raise [RangeError] for a number of more bits, or a negative one
    #   @raise [TypeError] for what is no Integer
    #   @raise [IOError] after #close

    # @!method write_f64_be(number)
    #   Queues an IEEE 754 number; also write_f32_be, and both with _le.
    #   @return [self]
    #   @raise [TypeError, IOError]

    # @!group What comes out

    # @!method operation(reuse = nil)
    #   What is to be done next; the same again until #shift, unless more is queued.
    #   @param reuse [Array, nil] the Array of an earlier call. It is filled again, with its Strings, so that in
    #     the long run no object is made; what it held is lost
    #   @return [Array] `[:writev, slices]`: Strings, all binary or ASCII, up to 64 and 1 MiB, those that
    #     were scheduled frozen; `[:file, io, offset, length]`; `[:yield]`: nothing is pending, or
    #     #yield_once was called; `[:close]`: nothing is pending, nor will be

    # @!method shift(count)
    #   Drops octets that have been written.
    #   @return [self]
    #   @raise [ArgumentError] when less is pending; nothing is dropped then
    #   @raise [Busy] during #serialize and #write_to of somebody

    # @!method peek(length, buffer = nil)
    #   The octets that come next, at most `length`, which stay pending. Files are read.
    #   @param buffer [String, nil] is filled and returned
    #   @return [String] binary; empty when nothing is pending

    # @!method to_s
    #   @return [String] all pending octets, which stay pending. Files are read.

    # @!method serialize
    #   Calls the block with what is pending, until nothing is, or the block takes only a part.
    #   @yieldparam slices [Array<String>] Both are used again: what is to be kept must be copied. Files come as
    #     Strings of at most 64 KiB
    #   @yieldreturn [Integer, :closed] octets that were written; or: nobody takes them any more. Then the
    #     outbox is closed and drained
    #   @return [:yield, :close] whether there may be more, or it is closed and empty
    #   @raise [ArgumentError] when the block returns anything else; nothing is shifted then
    #   @raise [Busy]

    # @!method write_to(io)
    #   Writes all that is pending, also what is queued meanwhile. While the IO takes nothing, only this fiber
    #   waits if there is a fiber scheduler, else this thread. On any exception what was written is shifted.
    #   @param io [IO, #write] an IO is written past its buffer, which is flushed before; so its encodings
    #     have no effect. Anything else gets a String at a time
    #   @return [Integer] octets written
    #   @raise [SystemCallError, IOError] what the IO raises; EOFError when a file has become shorter
    #   @raise [Busy]

    # @!method each
    #   Yields what is pending, slice by slice, as Strings of the caller's own; files in pieces of 64 KiB. With a
    #   block given to .new, that is called once, and what it writes is yielded as it goes; then the outbox is closed.
    #   @yieldparam octets [String] binary or ASCII
    #   @return [self, Enumerator]
    #   @raise [Busy]

    # @!method drain
    #   Drops all that is pending, whether the outbox is open or closed.
    #   @return [Integer] octets dropped
    #   @raise [Busy] while another thread is inside a system call of #write_to

    # @!group When

    # @!method flush
    #   With a block: calls it once, when everything queued before has been shifted or dropped, in the order of
    #   such calls and after the counters were updated; at once when nothing is pending. It may do anything with
    #   the outbox. When it raises, that comes out of the call that caused it, and the other blocks that
    #   were due are called by the next one. In any case #yield_once is taken back, and of an outbox that is
    #   being sent as a response, everything leaves that was written.
    #   @yieldparam reason [:shift, :drain, :nothing_pending]
    #   @return [self]

    # @!method yield_once
    #   The next #operation is `[:yield]`, and the next #serialize returns at once, though octets are pending,
    #   so that more can gather.
    #   @return [self]

    # @!method wait_writable
    #   When more than the high watermark is pending, waits until no more than the low watermark is, or the outbox
    #   is closed: the fiber, if there is a fiber scheduler, else the thread.
    #   @return [Boolean] whether the outbox is open

    # @!method close
    #   Nothing more can be queued; what is pending still comes out. Idempotent.
    #   @return [nil]

    # @!method closed?
    #   @return [Boolean]

    # @!group Counters

    # @!method pending_bytes
    #   @return [Integer] octets that have not been shifted

    # @!method pending?
    #   @return [Boolean]

    # @!method free_bytes
    #   @return [Integer] octets that can be copied before another piece of memory is taken

    # @!method high_watermark
    #   @return [Integer] octets

    # @!method low_watermark
    #   @return [Integer] octets
  end
end
