# frozen_string_literal: true

module Abaca
  class Log
    # Writes lines to one IO from a thread of its own, so that a full pipe or a slow disk holds up
    # neither the loop nor a request. It may be used from any thread, from fibers and from a trap
    # handler, where a Mutex could not; so it has none.
    class Writer
      # Lines that may wait; more are dropped, and a line says how many there were.
      CAPACITY = 10_000

      # Octets that are written in one go.
      BATCH = 64 * 1024

      # @return [Integer] lines that were dropped so far
      attr_reader :dropped

      # @param io [#write]
      def initialize(io)
        @io = io
        @dropped = 0
        @reported = 0
        begin_anew
      end

      # Hands over one line, or several that belong together, with their end.
      def push(line)
        start unless @thread&.alive?
        return @dropped += 1 if @queue.size >= CAPACITY

        @queue << line
      end

      # Waits until the lines pushed so far are written.
      #
      # @param timeout [Numeric] seconds
      # @return [Boolean] whether they were
      def flush(timeout)
        thread = @thread
        return @queue.empty? unless thread&.alive?

        done = Flush.new(Thread::Queue.new, false)
        @queue << done
        limit = now + timeout
        sleep(0.001) while done.answer.empty? && thread.alive? && now < limit
        !done.answer.empty?
      end

      # As #flush, and ends the thread; the next line starts another.
      def release(timeout)
        thread = @thread
        return @queue.empty? unless thread&.alive?

        @queue << Flush.new(Thread::Queue.new, true)
        !thread.join(timeout).nil?
      end

      # A mark in the queue: what came before it is written when it is answered.
      Flush = Struct.new(:answer, :last)
      private_constant :Flush

      private

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def begin_anew
        @queue = Thread::Queue.new
        @starts = Thread::Queue.new([true])
        @pid = Process.pid
        @thread = nil
      end

      # A forked child has the queue but not the thread; what waits in it is the parent's to write. Of
      # threads that come at the same time the one that gets the token starts the writer for all.
      def start
        begin_anew unless @pid == Process.pid
        token = take_token or return
        start_thread unless @thread&.alive?
      ensure
        @starts << token if token
      end

      def take_token
        @starts.pop(true)
      rescue ThreadError
        nil
      end

      def start_thread
        @thread = Thread.new(@queue) { |queue| run(queue) }
        @thread.name = "abaca log"
        @thread.report_on_exception = false
      end

      def run(queue)
        loop do
          item = queue.pop
          text = String.new
          while item.is_a?(String)
            text << item.b
            item = queue.empty? || text.bytesize >= BATCH ? nil : queue.pop
          end
          report_dropped(text)
          write(text)
          item&.answer&.push(true)
          break if item&.last && queue.empty?
        end
      end

      def report_dropped(text)
        return if @dropped == @reported

        text << "abaca: #{@dropped - @reported} log lines were dropped\n"
        @reported = @dropped
      end

      # A reader that has gone, a full disk, a logger of the user's that fails: the server goes on.
      def write(text)
        return if text.empty?

        @io.write(text)
        @io.flush if @io.respond_to?(:flush)
      rescue StandardError
        @dropped += text.count("\n")
        @reported = @dropped
      end
    end
  end
end
