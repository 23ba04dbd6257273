# frozen_string_literal: true

require "io/wait"

module Abaca
  class Launcher
    class Cluster
      # What the master waits at: commands of its own process, and what workers report. A trap handler may post, and so
      # may any thread.
      class Mailbox
        # What a worker reports: a word, its process, and a number.
        Report = Struct.new(:word, :pid, :number)
        # Bytes that are read at once.
        ROOM = 65_536
        private_constant :ROOM

        def initialize
          @reader, @writer = IO.pipe
          @commands = Thread::Queue.new
        end

        # Wakes the master.
        #
        # @param command [Symbol, Array, nil] what it shall do, and with which worker; nil: look around
        def post(command = nil)
          @commands << command if command
          @writer.write_nonblock("\n", exception: false) # when it is full, the master wakes up anyway
        rescue IOError, SystemCallError
          nil # the master has ended
        end

        # Reports to the master. A line of this length is written as a whole.
        #
        # @param word [Symbol] :booted, say
        # @param number [Integer]
        def report(word, number = 0)
          @writer.write("#{word} #{Process.pid} #{number}\n")
        rescue IOError, SystemCallError
          nil # the master has ended, which the worker notices elsewhere
        end

        # Waits until there is something.
        #
        # @param seconds [Numeric] at most
        # @return [Array<Report>]
        def wait(seconds)
          return [] unless @reader.wait_readable(seconds)

          text = @reader.read_nonblock(ROOM, exception: false)
          text = "#{@rest}#{text}" if text.is_a?(String)
          return [] unless text.is_a?(String)

          *lines, @rest = text.split("\n", -1)
          lines.reject(&:empty?).map { |line| report_of(*line.split) }
        end

        # @return [Symbol, Array, nil] the next command
        def command
          @commands.pop(true)
        rescue ThreadError
          nil
        end

        # A worker only reports.
        def close_reader = @reader.close

        # Idempotent.
        def close
          @reader.close
          @writer.close
        end

        private

        def report_of(word, pid, number) = Report.new(word.to_sym, pid.to_i, number.to_i)
      end
    end
  end
end
