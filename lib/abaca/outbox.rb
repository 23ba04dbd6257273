# frozen_string_literal: true

# The native part looks the error classes up when it is loaded.
require_relative "errors"
require "abaca/abaca"

module Abaca
  # An output queue that makes no garbage: it copies short pieces into reused memory, borrows long strings and files,
  # and gives everything out in order, in as few pieces as possible, ready for writev.
  #
  #     require "abaca/outbox"
  #
  #     out = Abaca::Outbox.new
  #     rows.each { |row| out << row.id << "," << row.name << "\n" }
  #     out.schedule(TRAILER)
  #     out.write_to(socket)
  #
  # It needs no server. Abaca's server sends an outbox that is a response's body without a copy. docs/outbox.md has a
  # picture, and says what to use when.
  #
  # Several fibers and threads may use one outbox: each call finds it consistent. Only one at a time can take bytes
  # out in several steps (#serialize, #write_to); others get Busy. A call that raises has queued nothing. After
  # #close, everything that queues raises IOError.
  class Outbox
    # Other code is taking bytes out of the outbox.
    class Busy < Error; end

    # @!method initialize(buffer: 4096, high_watermark: 65_536, low_watermark: high_watermark / 4)
    #   With a block: that fills the outbox, when a server sends it as a response's body, or #each is called. See
    #   docs/rack.md.
    #   @yieldparam out [Outbox] itself; what is written is handed on when more than the high watermark is
    #     pending, by #flush, and at the end
    #   @param buffer [Integer] bytes of each piece of memory that takes copies
    #   @param high_watermark [Integer] bytes that may be pending before #wait_writable waits
    #   @param low_watermark [Integer] bytes that may still be pending when it goes on
    #   @raise [ArgumentError] when one is out of range, or low is above high

    # @!group What goes in

    # @!method write(string, offset = 0, length = nil)
    #   Copies bytes of a String, up to its end when no length is given.
    #   @return [Integer] how many
    #   @raise [RangeError] when the string has no such part
    #   @raise [IOError] after #close

    # @!method <<(object)
    #   Copies a String, or what an object's to_s gives.
    #   @return [self]
    #   @raise [IOError] after #close

    # @!method schedule(string, offset = 0, length = nil)
    #   Queues bytes of a String without a copy. A frozen String costs no object; of any other one the bytes
    #   are shared, and changing it afterwards does not change what comes out. Less than 512 bytes are copied.
    #   @return [Integer] how many
    #   @raise [RangeError] when the string has no such part
    #   @raise [IOError] after #close

    # @!method schedule_file(io, offset = 0, length = nil)
    #   Queues a part of a regular file, up to its present end when no length is given. It is read, or given
    #   to sendfile, when its turn comes: the IO must be open until then. Its position does not move.
    #   @return [Integer] bytes
    #   @raise [RangeError] when the file has no such part
    #   @raise [ArgumentError] for anything but a regular file
    #   @raise [IOError] after #close, and for an IO that is closed or cannot be read

    # @!method write_gen(length)
    #   Queues what the block puts into a String.
    #   @param length [Integer] bytes that it may make
    #   @yieldparam buffer [String] empty and binary, with room for `length` bytes. It is reused for the next call:
    #     copy what you keep. The block may make fewer bytes. When it raises, or makes more, nothing is queued.
    #   @return [Integer] bytes that were queued
    #   @raise [ArgumentError] when the block has made more than `length`
    #   @raise [RangeError] for a negative length
    #   @raise [IOError] after #close

    # @!method write_byte(number) Queues a byte, 0 to 255.
    #   @return [self]
    #   @raise [RangeError, TypeError, IOError]

    # @!method write_u16_be(number)
    #   Queues an unsigned number of 16 bits, the most significant byte first. The same with 32, 48 and
    #   64 bits, and with the least significant one first, is write_u32_be, write_u16_le and so on.
    #   @return [self]
    #   @raise [RangeError] for a number of more bits, or a negative one
    #   @raise [TypeError] for anything but an Integer
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
    #   Drops bytes that have been written.
    #   @return [self]
    #   @raise [ArgumentError] when less is pending; nothing is dropped then
    #   @raise [Busy] during another's #serialize and #write_to

    # @!method peek(length, buffer = nil)
    #   The bytes that come next, at most `length`, which stay pending. Files are read.
    #   @param buffer [String, nil] is filled and returned
    #   @return [String] binary; empty when nothing is pending

    # @!method to_s
    #   @return [String] all pending bytes, which stay pending. Files are read.

    # @!method serialize
    #   Calls the block with what is pending, until nothing is, or the block takes only a part.
    #   @yieldparam slices [Array<String>] Both are reused: copy what you keep. Files come as Strings of at most 64
    #     KiB
    #   @yieldreturn [Integer, :closed] bytes that were written; or :closed if the reader has gone: then the outbox is
    #     closed and drained
    #   @return [:yield, :close] whether there may be more, or it is closed and empty
    #   @raise [ArgumentError] when the block returns anything else; nothing is shifted then
    #   @raise [Busy]

    # @!method write_to(io)
    #   Writes all that is pending, also what is queued meanwhile. While the IO takes nothing, only this fiber
    #   waits if there is a fiber scheduler, else this thread. On any exception what was written is shifted.
    #   @param io [IO, #write] an IO is written past its buffer, which is flushed before; so its encodings
    #     have no effect. Anything else gets a String at a time
    #   @return [Integer] bytes written
    #   @raise [SystemCallError, IOError] what the IO raises; EOFError when a file has become shorter
    #   @raise [Busy]

    # @!method each
    #   Yields what is pending, slice by slice, as Strings of the caller's own; files in pieces of 64 KiB. With a
    #   block given to .new, that is called once, and what it writes is yielded as it goes; then the outbox is closed.
    #   @yieldparam bytes [String] binary or ASCII
    #   @return [self, Enumerator]
    #   @raise [Busy]

    # @!method drain
    #   Drops all that is pending, whether the outbox is open or closed.
    #   @return [Integer] bytes dropped
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
    #   The next #operation is `[:yield]`, and the next #serialize returns at once, though bytes are pending,
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
    #   @return [Integer] bytes that have not been shifted

    # @!method pending?
    #   @return [Boolean]

    # @!method free_bytes
    #   @return [Integer] bytes that can be copied before another piece of memory is taken

    # @!method high_watermark
    #   @return [Integer] bytes

    # @!method low_watermark
    #   @return [Integer] bytes
  end
end
