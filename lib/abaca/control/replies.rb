# frozen_string_literal: true

require "json"
require_relative "answer"

module Abaca
  class Control
    # The answering end of a pair of sockets (Questions has the other one). Each question runs on a thread of its own,
    # so that none waits for another, unless there is no thread to be had: a server can be stopped nevertheless.
    class Replies
      # @param socket [UNIXSocket]
      # @param log [Log]
      # @yieldparam word [String] what is wanted
      # @yieldparam with [Hash{Symbol => Object}] what belongs to it
      # @yieldreturn [Answer]
      def initialize(socket, log, &answer)
        @socket = socket
        @log = log
        @answer = answer
        @lock = Mutex.new
      end

      # Answers until the other end is closed.
      def run
        while (line = @socket.gets)
          hear(JSON.parse(line, symbolize_names: true))
        end
      rescue SystemCallError, IOError, JSON::ParserError
        nil # the other end has gone, or is none of ours
      end

      # Tells the other process to end.
      #
      # @param silent [Numeric] seconds for its clients that have not asked yet
      def dismiss(silent:) = send_line({ end: silent })

      private

      def hear(line)
        return note(line) if line[:log]

        thread = Thread.new { reply(line) }
        thread.name = "abaca control act"
        thread.report_on_exception = false
      rescue ThreadError
        reply(line)
      end

      def note(line)
        @log.public_send(line[:log] == "warn" ? :warn : :error, line[:text])
      end

      # Who has asked waits no more when the time is over.
      def reply(line)
        return if Process.clock_gettime(Process::CLOCK_MONOTONIC) > line[:until]

        tell(line, answer(line))
      end

      def tell(line, answer) = send_line({ id: line[:id], **answer.to_h.slice(:status, :type, :body) })

      def answer(line)
        @answer.call(line[:do], line[:with])
      rescue StandardError => e
        @log.error("control server: /#{line[:do]}: #{e.message} (#{e.class}) at #{e.backtrace&.first}")
        Answer.text(500, "#{line[:do]} failed; the log says why")
      end

      def send_line(object)
        text = "#{Answer.generate(object)}\n"
        @lock.synchronize { @socket.write(text) }
      rescue SystemCallError, IOError
        nil # nobody waits any more
      end
    end
  end
end
