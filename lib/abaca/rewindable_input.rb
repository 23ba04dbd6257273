# frozen_string_literal: true

require "stringio"
require "tmpdir"
require_relative "binary_input"

module Abaca
  # rack.input that can be read again from its start, as Rack 2 requires: what has been read is kept, in memory up to
  # a limit, then in an unlinked temporary file.
  class RewindableInput
    include BinaryInput

    LINE = 8192 # bytes read at once for a line
    private_constant :LINE

    # @param source [Input]
    # @param memory [Integer] bytes that are kept in memory
    def initialize(source, memory)
      @source = source
      @memory = memory
      @kept = StringIO.new(String.new(encoding: Encoding::BINARY))
      @size = 0 # of what is kept
      @position = 0
      @hole = false # something was received that could not be kept
      @lock = Mutex.new # a reader may wait for bytes, and another fiber come meanwhile
    end

    # @see Input#read
    # @raise [StorageError] if there is no room for the temporary file; then for everything after what is kept
    def read(length = nil, buffer = nil)
      length = Input.bytes(length) unless length.nil?
      @lock.synchronize do
        keep(length)
        take(length, buffer)
      end
    end

    # @see Input#readpartial
    # @raise [StorageError]
    def readpartial(length, buffer = nil)
      length = Input.bytes(length)
      @lock.synchronize do
        receive(length) if @position == @size && length.positive?
        take([length, @size - @position].min, buffer)
      end
    end

    # The next read begins at the start of the body.
    #
    # @return [Integer] 0
    def rewind
      raise IOError, "closed stream" if closed?

      @position = 0
    end

    # @return [Integer] bytes from the start of the body
    def pos = @position

    # @see Input#size
    def size = @source.size

    # @see Input#eof?
    def eof? = @lock.synchronize { @position == @size && @source.eof? }

    # @return [nil]
    def close
      @kept.close
      @source.close
    end

    # @return [Boolean]
    def closed? = @kept.closed?

    private

    # Reads until `length` bytes after the position are kept, or all.
    def keep(length)
      raise IOError, "closed stream" if closed?

      if length.nil?
        fetch(nil)
      elsif @position + length > @size
        fetch(@position + length - @size)
      end
    end

    # From what is kept.
    def take(length, buffer)
      raise IOError, "closed stream" if closed?

      @kept.pos = @position
      result = @kept.read(length, *buffer)
      @position = @kept.pos
      result&.force_encoding(Encoding::BINARY)
    end

    # In pieces, so that a long body is not held in memory on its way to the file.
    def fetch(length)
      stop = length && (@size + length)
      receive([stop ? stop - @size : @memory, @memory].min) until @size == stop
    rescue EOFError
      nil
    end

    # Keeps what comes next. A read that waited for more would lose what it has if it were interrupted, and lost bytes
    # must not be skipped.
    def receive(most)
      raise StorageError, "a part of the request's body was not kept" if @hole

      piece = @source.readpartial(most)
      @hole = true
      append(piece)
      @hole = false
      true
    end

    def append(piece)
      to_file if @size + piece.bytesize > @memory && @kept.is_a?(StringIO)
      @kept.pos = @size
      @kept.write(piece)
      @size += piece.bytesize
    rescue Errno::ENOSPC, Errno::EDQUOT, Errno::EFBIG => e
      raise StorageError, "no room for the request's body: #{e.message}"
    end

    def to_file
      file = open_file
      file.write(@kept.string)
      @kept = file
    end

    # It never has a name, or loses it at once, so that a crash does not leave it behind.
    def open_file
      file = nameless_file(Dir.tmpdir)
      file.binmode
      file.sync = true
      file
    rescue SystemCallError, ArgumentError => e
      raise StorageError, "no temporary file for the request's body: #{e.message}"
    end

    def nameless_file(folder)
      return unlinked_file(folder) unless defined?(File::TMPFILE) # Linux only

      File.new(folder, File::RDWR | File::TMPFILE, 0o600)
    rescue Errno::EOPNOTSUPP, Errno::EISDIR, Errno::ENOENT # not every file system knows it
      unlinked_file(folder)
    end

    def unlinked_file(folder)
      path = File.join(folder, "abaca-#{Process.pid}-#{object_id}")
      File.new(path, File::RDWR | File::CREAT | File::EXCL, 0o600).tap { File.unlink(path) }
    end

    # Raises StorageError like #read.
    def take_line(separator, limit)
      @lock.synchronize do
        line = kept_line(separator, limit)
        line = kept_line(separator, limit) until whole?(line, separator, limit) || !fetch_more(line)
        @position += line.bytesize if line
        line
      end
    end

    # What is kept of the line at the position.
    def kept_line(separator, limit)
      raise IOError, "closed stream" if closed?

      @kept.pos = @position
      @kept.gets(separator, *limit)&.force_encoding(Encoding::BINARY)
    end

    def whole?(line, separator, limit)
      line && (line.bytesize == limit || (separator && line.end_with?(separator)))
    end

    # Twice as much each time, so that a long line is not searched too often.
    def fetch_more(line)
      receive([line.to_s.bytesize, LINE].max)
    rescue EOFError
      nil
    end
  end
end
