# frozen_string_literal: true

module Abaca
  class Web
    # A connection that was taken over. Nobody waits for a client that does not read: what it has not taken is kept, up
    # to a limit.
    class Line
      MOST = 1 << 20
      private_constant :MOST

      # @param socket [BasicSocket] is closed with it
      def initialize(socket)
        @socket = socket
        @rest = "".b
      end

      # @param text [String]
      # @return [nil]
      # @raise [IOError] when the client has gone, or takes nothing
      # @raise [SystemCallError] the same
      def write(text)
        @rest << text.b
        while !@rest.empty? && (sent = @socket.write_nonblock(@rest, exception: false)).is_a?(Integer)
          @rest = @rest.byteslice(sent..)
        end
        raise IOError, "the client takes nothing" if @rest.bytesize > MOST
        raise IOError, "the client has gone" if @socket.read_nonblock(1024, exception: false).nil?
      end

      # @return [nil]
      def close = @socket.close
    end
  end
end
