# frozen_string_literal: true

module Abaca
  class Log
    # Writes lines to one IO from its own thread, so that a full pipe or a slow disk delays neither the loop nor a
    # request. Any thread, fiber or trap handler may use it. A Mutex does not work in a trap handler, so there is
    # none.
    class Writer
      # Lines that may wait; more are dropped, and a line says how many.
      CAPACITY = 10_000

      # Bytes that are written in one go.
      BATCH = 64 * 1024

      # @return [Integer] lines that were dropped so far
      attr_reader :dropped

      # @param io [#write]
      # @yield [number] the line that says how many were dropped
      def initialize(io, &report)
        @io = io
        @report = report
        @dropped = 0
        @reported = 0
        begin_anew
      end

      # Takes one line, or several that belong together, each with its end.
      def push(line)
        begin_anew if forked?
        return @dropped += 1 if @queue.size >= CAPACITY

        @queue << line
        start unless writes?
      end

      # Waits until the lines pushed so far are written.
      #
      # @param timeout [Numeric] seconds
      # @return [Boolean] whether they were
      def flush(timeout) = marked(false, now + timeout) ? true : false

      # As #flush, and ends the thread; the next line starts another.
      def release(timeout)
        limit = now + timeout
        thread = marked(true, limit) or return false
        thread == true || !thread.join([limit - now, 0].max).nil?
      end

      # A mark in the queue: everything before it has been written when the writer answers it.
      Flush = Struct.new(:answer, :last)
      private_constant :Flush

      private

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def writes? = @thread&.alive?

      # A forked child has the queue but not the thread; the parent writes what waits in it.
      def forked? = !writes? && @pid != Process.pid

      def begin_anew
        @queue = Thread::Queue.new
        @starts = Thread::Queue.new([true])
        @pid = Process.pid
        @thread = nil
      end

      # Returns the thread that has found the mark, true if there was nothing to write, nil after the timeout.
      def marked(last, limit)
        begin_anew if forked?
        return true if !writes? && @queue.empty?

        mark = Flush.new(Thread::Queue.new, last)
        @queue << mark
        while mark.answer.empty? && now < limit
          start unless writes?
          sleep 0.001
        end
        mark.answer.pop unless mark.answer.empty?
      end

      # Of concurrent threads, the one that gets the token starts the writer for all. It checks again after it has
      # given the token back, since others that came meanwhile have left the start to it.
      def start
        until writes?
          begin
            token = nil
            token = @starts.pop(true)
            start_thread unless writes?
          rescue ThreadError
            return # another one has the token, or no thread could start: the next line tries again
          ensure
            @starts << token if token
          end
        end
      end

      # It has to be known before it can end.
      def start_thread
        known = Thread::Queue.new
        @thread = Thread.new(@queue) do |queue|
          known.pop
          run(queue)
        end
        @thread.name = "abaca log"
        @thread.report_on_exception = false
      ensure
        known.close
      end

      # A push looks for the writer afterwards, and a writer that ends checks the queue after it has unregistered, so
      # one of them sees the other, and no line is left.
      def run(queue)
        mark = write_all(queue)
        @thread = nil
        start unless queue.empty?
        mark.answer.push(Thread.current)
      end

      # Until the mark that is the last.
      def write_all(queue)
        loop do
          item = queue.pop
          text = String.new
          while item.is_a?(String)
            text << item.b
            item = queue.empty? || text.bytesize >= BATCH ? nil : queue.pop
          end
          report_dropped(text)
          write(text)
          return item if item&.last

          item&.answer&.push(Thread.current)
        end
      end

      def report_dropped(text)
        return if @dropped == @reported

        text << @report.call(@dropped - @reported).b
        @reported = @dropped
      end

      # The server continues if the reader has gone, the disk is full, or the user's logger fails.
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
