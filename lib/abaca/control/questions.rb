# frozen_string_literal: true

require "json"
require_relative "answer"

module Abaca
  class Control
    # The asking end of a pair of sockets: lines of JSON go out, and their answers come back in any order. Nobody waits
    # for longer than he says, and what was not answered in time is not done later. Any thread may ask.
    class Questions
      # @param socket [UNIXSocket] is closed when the other end is
      # @yieldparam told [Numeric, nil] when the other end says that this process is to end: what Replies#dismiss was
      #   given; nil when it is closed
      def initialize(socket, &ended)
        @socket = socket
        @ended = ended
        @lock = Mutex.new
        @changed = ConditionVariable.new
        @answers = {} # number => Hash, or nil while it is awaited
        @last = 0
        @thread = Thread.new { listen }
        @thread.name = "abaca control line"
      end

      # @param word [String] what is wanted
      # @param within [Numeric] seconds
      # @param with [Hash{Symbol => Object}] what belongs to it
      # @return [Answer, nil] nil: there was none in time
      def ask(word, within:, **with)
        deadline = now + within
        number = @lock.synchronize { (@last += 1).tap { |one| @answers[one] = nil } }
        found = await(number, deadline) if send_line({ id: number, do: word, until: deadline, with: })
        found && Answer.new(*found.values_at("status", "type", "body"))
      ensure
        @lock.synchronize { @answers.delete(number) }
      end

      # Has the other end log something. Nobody waits for it.
      #
      # @param level [Symbol] :warn or :error
      # @param text [String]
      def log(level, text) = send_line({ log: level, text: })

      # @return [Boolean] whether the other end is closed
      def closed? = @closed == true

      # Nobody answers any more: the next process has another line.
      def close
        @socket.close
      rescue IOError
        nil # at the same time as the other end
      end

      private

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      # A line is short, so that the kernel takes it as a whole, or not at all: then the other process does not read.
      def send_line(object)
        text = "#{Answer.generate(object)}\n"
        @lock.synchronize { @socket.write_nonblock(text, exception: false) == text.bytesize }
      rescue SystemCallError, IOError
        false
      end

      def await(number, deadline)
        @lock.synchronize do
          until @answers[number] || closed?
            left = deadline - now
            break unless left.positive?

            @changed.wait(@lock, left)
          end
          @answers[number]
        end
      end

      def listen
        while (line = @socket.gets)
          told = JSON.parse(line)
          told["end"] ? @ended&.call(told["end"]) : take(told)
        end
      rescue SystemCallError, IOError, JSON::ParserError
        nil # it is over all the same
      ensure
        finish
      end

      def take(answer)
        @lock.synchronize do
          @answers[answer["id"]] = answer if @answers.key?(answer["id"])
          @changed.broadcast
        end
      end

      def finish
        @lock.synchronize do
          @closed = true
          @socket.close
          @changed.broadcast
        end
        @ended&.call(nil)
      end
    end
  end
end
