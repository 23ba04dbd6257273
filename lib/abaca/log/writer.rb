# frozen_string_literal: true

require_relative "sink"

module Abaca
  class Log
    # Has lines written by a thread of its own, so that a full pipe or a slow disk delays neither the loop nor a
    # request. Any thread, fiber or trap handler may use it. A Mutex does not work in a trap handler, so there is none:
    # counters change where Ruby does not switch threads, between reading and setting a variable.
    class Writer
      # Lines and bytes that may wait; more are dropped, and a line says how many.
      CAPACITY = 10_000
      MEMORY = 16 * 1024 * 1024

      # Bytes that are taken from the queue at once.
      BATCH = 64 * 1024

      # Seconds in which the last lines are written.
      LAST = 0.1

      # Seconds between two complaints that lines cannot be written.
      PAUSE = 60

      # @param io [#write]
      # @param report [#call] gets a number, returns the line that says how many were dropped
      # @param trouble [#call] gets the exception when lines cannot be written, once in `PAUSE` seconds
      def initialize(io, report:, trouble:)
        @io = io
        @report = report
        @trouble = trouble
        begin_anew
      end

      # Starts the thread, which the first line would do: there may be none to be had by then.
      def prepare
        begin_anew if forked?
        return if @closed

        @queue << Flush.new(Thread::Queue.new, false)
        start unless writes?
      end

      # Takes one line, or several that belong together, each with its end.
      def push(line)
        begin_anew if forked?
        return write_at_once(line) if @closed

        size = line.bytesize
        return drop(line) if @queue.size >= CAPACITY || @waiting + size > MEMORY

        @waiting += size
        @queue << line
        start unless writes?
      end

      # @return [Integer] lines that were dropped so far, in this process
      def dropped
        begin_anew if forked?
        @dropped
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

      # As #release; who has a line later writes it, and starts no thread. Of threads that come when a process has begun
      # to end, Ruby ends none, and waits for them.
      def close(timeout)
        written = release(timeout)
        @closed = true
        release(LAST) && written # a line that came meanwhile
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
        @sink = Sink.new(@io)
        @queue = Thread::Queue.new
        @starts = Thread::Queue.new([true])
        @waiting = @dropped = @reported = 0
        @told = nil
        @closed = false
        @pid = Process.pid
        @thread = nil
      end

      # The process ends: it does not wait for a reader that stands still.
      def write_at_once(line)
        @sink.room? ? write([line]) : drop(line)
      end

      def drop(lines)
        number = lines.count("\n")
        @dropped += number
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
      # given the token back, since others that came meanwhile have left the start to it. A writer that has taken all
      # and ends needs no successor, which would wait for ever.
      def start
        until writes? || @queue.empty?
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
          lines = []
          size = 0
          while item.is_a?(String)
            lines << item
            size += item.bytesize
            item = queue.empty? || size >= BATCH ? nil : queue.pop
          end
          @waiting -= size
          write(lines)
          return item if item&.last

          item&.answer&.push(Thread.current)
        end
      end

      # A report of what was dropped comes last, so it is written only if everything is. The server goes on if the
      # reader has gone, the disk is full, or the user's logger fails.
      def write(lines)
        missing = @dropped - @reported
        lines << @report.call(missing) if missing.positive?
        failure = @sink.write(lines) unless lines.empty?
        return @reported += missing unless failure

        lost = failure.lines - (missing.positive? ? 1 : 0)
        @dropped += lost
        complain(failure.error)
      end

      def complain(error)
        return if @told && now < @told + PAUSE

        @told = now
        @trouble.call(error)
      end
    end
  end
end
