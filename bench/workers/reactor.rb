# frozen_string_literal: true

module Bench
  # Hand-written fibers: a reactor on IO.select in plain Ruby. A task calls `read` and `write`, which
  # try first and park the fiber in a table when the kernel has nothing yet.
  class Reactor
    def initialize
      @readers = {}
      @writers = {}
    end

    # Starts a task at once, up to its first wait.
    def start(&) = Fiber.new(&).resume

    # Resumes what the kernel says is ready, until no task waits.
    def run
      until @readers.empty? && @writers.empty?
        readable, writable = IO.select(@readers.keys, @writers.keys)
        readable.each { |io| @readers.delete(io).resume }
        writable.each { |io| @writers.delete(io).resume }
      end
    end

    # @param io [IO]
    # @param bytes [Integer] exactly as many are read
    # @return [String]
    def read(io, bytes)
      data = +""
      while data.bytesize < bytes
        case piece = io.read_nonblock(bytes - data.bytesize, exception: false)
        when :wait_readable then park(@readers, io)
        when nil then raise EOFError, "the other end is closed"
        else data << piece
        end
      end
      data
    end

    # Writes all of it.
    def write(io, data)
      until data.empty?
        written = io.write_nonblock(data, exception: false)
        written == :wait_writable ? park(@writers, io) : data = data.byteslice(written..)
      end
    end

    private

    def park(table, io)
      table[io] = Fiber.current
      Fiber.yield
    end
  end
end
