# frozen_string_literal: true

module Abaca
  class Stream
    # The other methods of an IO, for apps that were written for the socket that other servers give them. They are
    # built on the stream's own read, gets, readpartial, write and flush. There is no `to_io` and no `fileno`: writes
    # to the socket itself would break the framing of the response.
    module IONames
      # As IO#print: the objects one after the other.
      #
      # @return [nil]
      def print(*objects) = format_with(:print, objects)

      # As IO#puts: each object on a line of its own.
      #
      # @return [nil]
      def puts(*objects) = format_with(:puts, objects)

      # As IO#printf.
      #
      # @return [nil]
      def printf(*objects) = format_with(:printf, objects)

      # As IO#putc.
      #
      # @return [Object] the argument
      def putc(object)
        format_with(:putc, [object])
        object
      end

      # Writes, and sends at once what the socket takes.
      #
      # @return [Integer] the length in bytes
      def syswrite(string)
        length = write(string)
        flush
        length
      end

      # As IO#sysread: what has arrived.
      #
      # @raise [EOFError] at the end of the request's body
      def sysread(...) = readpartial(...)

      # @return [String] the next line
      # @raise [EOFError] at the end of the request's body
      def readline(...) = gets(...) || raise(EOFError, "end of file reached")

      # @return [Array<String>] all lines that are left
      def readlines(...) = each_line(...).to_a

      # @yieldparam line [String]
      # @return [self]
      def each_line(*arguments, **options)
        return enum_for(:each_line, *arguments, **options) unless block_given?

        while (line = gets(*arguments, **options))
          yield line
        end
        self
      end
      alias each each_line

      # @return [Integer, nil] the next byte; nil at the end
      def getbyte = read(1)&.ord

      # @return [String, nil] the next byte; nil at the end
      def getc = read(1)

      # @return [Integer] the next byte
      # @raise [EOFError] at the end of the request's body
      def readbyte = readpartial(1).ord

      # @return [String] the next byte
      # @raise [EOFError] at the end of the request's body
      def readchar = readpartial(1)

      # @return [Boolean] whether the request's body has ended; waits until that is known
      def eof? = input.eof?
      alias eof eof?

      # @return [false]
      def tty? = false
      alias isatty tty?

      # @return [self] it is binary already
      def binmode = self

      # @return [self] it stays binary
      def set_encoding(*, **) = self

      # @return [Encoding]
      def external_encoding = Encoding::BINARY

      private

      def format_with(name, objects)
        text = StringIO.new(String.new(encoding: Encoding::BINARY))
        text.public_send(name, *objects)
        write(text.string) unless text.string.empty?
        nil
      end
    end
  end
end
