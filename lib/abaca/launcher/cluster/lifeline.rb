# frozen_string_literal: true

require "io/wait"

module Abaca
  class Launcher
    class Cluster
      # Tells workers that their master has ended, however it did: only the master holds the writing end of a pipe.
      class Lifeline
        # Seconds between two looks at the parent's number, in case another child of the master holds the pipe.
        LOOK = 5
        private_constant :LOOK

        # In the master, before the first fork.
        def initialize
          @reader, @writer = IO.pipe
          @master = Process.pid
        end

        # In a worker: watches on a thread.
        #
        # @yield when the master has ended
        def watch
          @writer.close
          thread = Thread.new do
            nil until @reader.wait_readable(LOOK) || Process.ppid != @master
            yield
          end
          thread.name = "abaca lifeline"
        end

        # In the master: its workers end. Idempotent.
        def close
          @reader.close
          @writer.close
        end
      end
    end
  end
end
