# frozen_string_literal: true

require_relative "line"

module Abaca
  class Web
    # Event streams that keep no thread: on a fiber, each has its own; on threads, their connections are taken over, and
    # one thread writes to all of them, until the last one ends. Over HTTP/2 nothing can be taken over: there a stream
    # keeps its thread.
    module Streams
      # Seconds between two looks at what is to be sent.
      STEP = 0.5
      # Streams at once; others are told to come back.
      MOST = 16
      # What a client that has gone makes of a write.
      GONE = [PeerError, IOError, SystemCallError].freeze
      # Whoever is written to by the thread: what is sent, and whether it is over.
      Reader = Struct.new(:stream, :live, :over)
      private_constant :STEP, :MOST, :GONE, :Reader

      @lock = Mutex.new
      @readers = []
      @open = 0

      class << self
        # @param env [Hash] Rack's
        # @param live [Dashboard::Live]
        # @param fields [Hash{String => String}]
        # @param over [#call] whether streams are to end
        # @return [Array] a Rack response
        def answer(env, live, fields, over:)
          return [503, { "content-type" => "text/plain", "retry-after" => "5" }, ["Too many streams"]] unless room?

          hijack = env["rack.hijack"] if env["abaca.mode"] == :thread
          return take_over(hijack, live, fields, over) if hijack

          body = ->(stream) { write(Reader.new(stream, live, over)) }
          return [200, { **fields, "rack.hijack" => body }, []] if ::Rack.release < "3"

          [200, fields, body]
        end

        # @return [Integer] how many there are
        def count = @lock.synchronize { @readers.size + @open }

        private

        def room? = count < MOST

        # On the request's own fiber.
        def write(reader)
          @lock.synchronize { @open += 1 }
          sleep(STEP) while step(reader)
        ensure
          @lock.synchronize { @open -= 1 }
          reader.stream.close
        end

        # The request's thread is free again. What is returned is nobody's.
        def take_over(hijack, live, fields, over)
          line = Line.new(hijack.call)
          line.write("HTTP/1.1 200 OK\r\nConnection: close\r\n" \
                     "#{fields.map { |name, value| "#{name}: #{value}\r\n" }.join}\r\n")
          hand_over(Reader.new(line, live, over))
          [200, fields, []]
        end

        def hand_over(reader)
          @lock.synchronize do
            @readers = [] unless @thread&.alive? # those of the process that has forked this one
            @readers << reader
            @thread = start unless @thread&.alive?
          end
        end

        def start
          Thread.new { write_all }.tap do |thread|
            thread.name = "abaca web"
            thread.report_on_exception = false
          end
        end

        def write_all
          loop do
            @lock.synchronize { @readers.dup }.each { |reader| step(reader) || drop(reader) }
            break if idle?

            sleep(STEP)
          end
        end

        # Whoever comes later starts another thread.
        def idle?
          @lock.synchronize do
            @thread = nil if @readers.empty?
            @readers.empty?
          end
        end

        def drop(reader)
          @lock.synchronize { @readers.delete(reader) }
          reader.stream.close
        rescue *GONE
          nil
        end

        # Returns whether it goes on.
        def step(reader)
          return false if reader.over.call

          text = reader.live.next
          # A line that is written nothing to notices that its client has gone.
          reader.stream.write(text) if !text.empty? || reader.stream.is_a?(Line)
          true
        rescue *GONE
          false
        end
      end
    end
  end
end
