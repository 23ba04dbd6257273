# frozen_string_literal: true

module Abaca
  module TLS
    # Where a master leaves what it has read for the workers, which need no right to read keys: memory that was there
    # before they were forked. A worker that is forked later, or has not looked for a while, finds the latest.
    class Shelf
      # The version, and the length of what follows. The version is odd while it is written.
      HEAD = "Q<Q<"
      HEAD_SIZE = 16
      # Times to read what is being written meanwhile.
      TRIES = 100
      # Seconds between two of them.
      PAUSE = 0.01
      private_constant :HEAD, :HEAD_SIZE, :TRIES, :PAUSE

      # @raise [SystemCallError] if there is no memory
      def initialize
        @file = File.for_fd(TLSContext.memory, "r+b")
        @file.pwrite([0, 0].pack(HEAD), 0)
      end

      # @return [Integer] changes with each #put; 0: nothing has been put
      def version = @file.pread(8, 0).unpack1("Q<")

      # For the one process that writes.
      #
      # @param content [Object] that Marshal knows
      def put(content)
        data = Marshal.dump(content)
        next_version = (version | 1) + 1
        @file.pwrite([next_version - 1, 0].pack(HEAD), 0)
        @file.pwrite(data, HEAD_SIZE)
        @file.pwrite([next_version, data.bytesize].pack(HEAD), 0)
      end

      # @return [Array(Integer, Object), nil] the version, and what was put last; nil if that never ends
      def take
        TRIES.times do
          found, size = @file.pread(HEAD_SIZE, 0).unpack(HEAD)
          data = @file.pread(size, HEAD_SIZE) if found.even? && size.positive?
          return [found, Marshal.load(data)] if data && found == version # rubocop:disable Security/MarshalLoad -- our own

          sleep(PAUSE)
        end
        nil
      end

      # Idempotent.
      def close = @file.close
    end
  end
end
