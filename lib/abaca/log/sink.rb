# frozen_string_literal: true

require "io/wait" # before Ruby 3.2

module Abaca
  class Log
    # Where one writer's lines go: an IO, or an object with `write`.
    #
    # Processes may share an IO. A regular file takes each write as a whole. A pipe, a socket or a terminal does so with
    # PIPE_BUF bytes at most, and therefore gets pieces of that size which end with a line.
    class Sink
      # Bytes that are written in one go to a file, and to everything else: PIPE_BUF of Linux.
      FILE = 64 * 1024
      PIPE = 4096

      # Lines that are lost, and why.
      Failure = Struct.new(:lines, :error)

      # @param io [#write] an IO becomes synchronous: what the app writes to it is not held back in a buffer, from which
      #   a forked child would write it once more. What is there already is written
      def initialize(io)
        @io = io
        @descriptor = io.is_a?(IO) && io.method(:write).owner.equal?(IO)
        empty_buffer if @descriptor && !io.closed?
        @torn = false
      end

      # @param lines [Array<String>] entries of one line or several, each with its end
      # @return [Failure, nil]
      def write(lines)
        left = lines
        return write_object(lines) unless @descriptor

        left = pieces(lines)
        end_torn_line
        write_first(left) until left.empty?
      rescue StandardError => e
        Failure.new(left.sum { |text| text.count("\n") }, e)
      end

      # @return [Boolean] whether a line can be written without a wait
      def room?
        !@descriptor || !@io.wait_writable(0).nil?
      rescue SystemCallError, IOError
        true # then a write says what is wrong
      end

      private

      def empty_buffer
        @io.sync = true
        @io.flush
      rescue SystemCallError, IOError
        nil # a line of ours will say what is wrong with it
      end

      def write_object(lines)
        @io.write(lines.map(&:b).join.force_encoding(Encoding::UTF_8))
        @io.flush if @io.respond_to?(:flush)
        nil
      end

      # Entries stay whole where they fit.
      def pieces(lines)
        limit = @io.stat.file? ? FILE : PIPE
        lines = lines.flat_map { |entry| entry.bytesize > limit ? entry.lines : [entry] }
        lines.each_with_object([]) do |line, pieces|
          last = pieces.last
          last && last.bytesize + line.bytesize <= limit ? last << line.b : pieces << line.b
        end
      end

      # A full disk may have taken a part of a line.
      def end_torn_line
        @io.syswrite("\n") if @torn
        @torn = false
      end

      # Writes the first piece, or as much of it as there is room for.
      def write_first(pieces)
        piece = pieces.first
        written = @io.syswrite(piece)
        @torn = piece.getbyte(written - 1) != 10
        written == piece.bytesize ? pieces.shift : pieces[0] = piece.byteslice(written..)
      rescue Errno::EAGAIN, Errno::EINTR # the pipe of another process may not block
        @io.wait_writable
      end
    end
  end
end
