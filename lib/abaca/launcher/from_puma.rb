# frozen_string_literal: true

module Abaca
  class Launcher
    # Sockets of a Puma that has executed this program in its place, since its command leads here by now: it was told
    # to restart (USR2). They come as variables PUMA_INHERIT_0 and so on: a descriptor, and the URL as in Puma's
    # configuration.
    module FromPuma
      NAME = /\APUMA_INHERIT_\d+\z/
      VALUE = /\A(\d{1,9}):([^?]+)/
      private_constant :NAME, :VALUE

      class << self
        # @param env [Hash{String => String}, ENV] loses the variables
        # @return [Array<Inherited::Place>] those of the sockets that are there
        def places(env)
          env.keys.grep(NAME).filter_map do |name|
            fd, url = VALUE.match(env.delete(name))&.captures
            Inherited::Place.new(url.gsub("%20", " "), [Integer(fd, 10)], mark(url)) if url && listens?(Integer(fd, 10))
          end
        end

        private

        # The file of a socket is left to the successor.
        def mark(url) = url.match?(%r{\Aunix://[^@]}) ? "own" : "-"

        # A variable may have come to a process that has none of the sockets.
        def listens?(fd)
          socket = Socket.for_fd(fd)
          socket.autoclose = false
          socket.getsockopt(:SOCKET, :ACCEPTCONN).bool
        rescue SystemCallError, ArgumentError
          false
        end
      end
    end
  end
end
