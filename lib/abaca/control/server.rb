# frozen_string_literal: true

require_relative "answer"
require_relative "catalogue"
require_relative "guard"
require_relative "places"
require_relative "request"

module Abaca
  class Control
    # Serves commands, on threads of its own beside what the process serves otherwise: it needs nothing of the engine,
    # so it answers while a request keeps the loop. Each connection carries one request and has seconds for it.
    class Server
      # Connections at once. More of them wait in the kernel, but not for a client that has shown no token.
      MOST = 16
      # Seconds for a client to take its answer, and for answers when the process ends.
      SECONDS = 5
      # Bytes that a client may have sent for nothing: it should still read its answer.
      UNREAD = 65_536
      # Streams at once.
      STREAMS = 8
      # Seconds between looks at a client that waits for an answer which takes its time.
      LOOK = 0.05
      private_constant :MOST, :SECONDS, :UNREAD, :STREAMS, :LOOK

      # @param places [Places]
      # @param guard [Guard]
      # @param commands [Commands]
      # @param log [Log]
      def initialize(places, guard:, commands:, log:)
        @places = places
        @guard = guard
        @commands = commands
        @log = log
        @connections = {} # thread => socket
        @lock = Mutex.new
        @changed = ConditionVariable.new
        @ending = false
        @thread = start("abaca control") { accept }
      end

      # Answers what has been asked, and ends. Streams end, and jobs are given up.
      #
      # @param silent [Numeric] seconds for clients that have not asked yet: where another process continues with the
      #   places, these connections are none of its own
      def close(silent: 0)
        @thread.kill.join
        began = now
        @ending = true
        hear_no_more(:streams)
        join(began + [silent, SECONDS].min)
        hear_no_more(:reads)
        join(began + SECONDS).each { |thread| thread.kill.join }
        @connections.each_value(&:close) # of those that had not begun
        @places.close
      end

      # In a forked child, which has none of the threads: lets go of the parent's sockets.
      def forget
        @connections.each_value(&:close)
        @places.forget
      end

      private

      def start(name, &)
        Thread.new(&).tap do |thread|
          thread.name = name
          thread.report_on_exception = false
        end
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      # Threads in this state find the end of the stream, behind what has arrived.
      def hear_no_more(state)
        found = @lock.synchronize { @connections.select { |thread, _| thread[state] } }
        found.each_value { |socket| shut(socket, :RD) }
      end

      def shut(socket, how)
        socket.shutdown(how)
      rescue SystemCallError, IOError
        nil # it has ended meanwhile
      end

      # Returns the threads of connections that have not ended by then.
      def join(deadline)
        @lock.synchronize { @connections.keys }.reject { |thread| thread.join([deadline - now, 0].max) }
      end

      # A connection that is accepted is attended, also when this is the end.
      def accept
        loop do
          ready, = IO.select(@places.sockets)
          ready.each do |listener|
            make_room
            Thread.handle_interrupt(Object => :never) { take_from(listener) }
          rescue SystemCallError, ThreadError => e
            trouble(e)
          end
        end
      end

      def take_from(listener)
        socket = listener.accept_nonblock(exception: false)
        attend(socket) if socket.is_a?(BasicSocket)
      end

      # Waits until there is room for one more connection.
      def make_room
        @lock.synchronize do
          until @connections.size < MOST
            dismiss_one
            @changed.wait(@lock)
          end
        end
      end

      # The oldest client that has not asked yet gives way: its thread reads the end of the stream.
      def dismiss_one = oldest(:reads)&.then { |socket| shut(socket, :RD) }

      # The first connection whose thread is in this state.
      def oldest(state) = @connections.find { |thread, _| thread[state] }&.last

      # Without descriptors or threads, the next try waits a little.
      def trouble(error)
        @log.warn("control server: #{error.message}")
        sleep 0.1
      end

      # The thread begins when it is in the list, and leaves it at its end. What the one that accepts does not hear, it
      # does.
      def attend(socket)
        @lock.synchronize do
          thread = start("abaca control connection") do
            Thread.handle_interrupt(Object => :immediate) { serve(socket) }
          end
          thread[:reads] = true
          @connections[thread] = socket
        end
      rescue ThreadError
        Thread.handle_interrupt(Object => :immediate) { serve(socket) } # others wait meanwhile
      end

      def serve(socket)
        @lock.synchronize { nil }
        converse(socket)
      rescue SystemCallError, IOError
        nil # the client has gone
      ensure
        socket.close
        @lock.synchronize { @connections.delete(Thread.current) && @changed.signal }
      end

      def converse(socket)
        request = read(socket) or return
        answer = reply(request, socket)
        answer = await(answer.job, request, socket) or return if answer.job
        return stream(socket, answer) if answer.stream && request.verb != "HEAD"

        send_answer(socket, answer.to_http(request.verb))
      rescue Request::Invalid => e
        send_answer(socket, Answer.text(e.status, e.message).to_http("GET"))
      end

      # What is cut off at the end, nobody answers.
      def read(socket)
        Request.read(socket)
      rescue Request::Half
        raise unless @ending
      ensure
        Thread.current[:reads] = false
      end

      def reply(request, socket)
        entry = Catalogue.find(request)
        refuse(entry, request, socket) ||
          @commands.answer(entry, request, level: @guard.level(request, query: entry.puma))
      rescue StandardError => e
        @log.error("control server: #{request.path}: #{e.message} (#{e.class}) at #{e.backtrace&.first}")
        Answer.text(500, "#{entry.name} failed; the log says why")
      end

      # Who has no token learns nothing of what there is.
      def refuse(entry, request, socket)
        query = entry.puma
        refusal = @guard.refusal(request, socket, query:, open: entry.open)
        return Answer.text(403, refusal) if refusal
        return if entry.open
        return Answer.text(403, "Not allowed with this token") unless entry.allowed?(@guard.level(request, query:))
        return unless entry.act
        return post_is_needed if request.verb != "POST" && (entry.post || @guard.post_only?)

        Answer.text(403, "A cookie only lets you look") unless @guard.meant?(request, query:)
      end

      def post_is_needed = Answer.text(405, "POST is needed", { "Allow" => "POST" })

      # The answer of a job; nil: the client has gone. Then the job is cancelled, as at the end.
      def await(job, request, socket)
        Thread.current[:waits] = true
        answer = nil
        nil until (answer = outcome(job, request)) || @ending || gone?(socket, LOOK)
        answer || (Answer.text(503, "The server ends") if @ending)
      ensure
        Thread.current[:waits] = false
        job.cancel unless answer
      end

      def outcome(job, request)
        job.answer
      rescue StandardError => e
        failed(request, e)
      end

      def failed(request, error)
        @log.error("control server: #{request.path}: #{error.message} (#{error.class}) at #{error.backtrace&.first}")
        Answer.text(500, "#{request.path} failed; the log says why")
      end

      # Bytes that have come and that nobody reads would make the kernel reset the connection, and the answer with it.
      # Nobody waits for more of them: a refused client would keep its place meanwhile.
      def send_answer(socket, bytes) = write(socket, bytes) && socket.read_nonblock(UNREAD, exception: false)

      # Returns whether the client has taken all of it in time.
      def write(socket, bytes)
        deadline = now + SECONDS
        until bytes.empty?
          sent = socket.write_nonblock(bytes, exception: false)
          if sent == :wait_writable
            return false unless wait_writable(socket, deadline)
          else
            bytes = bytes.byteslice(sent..)
          end
        end
        true
      end

      def wait_writable(socket, deadline)
        @lock.synchronize do
          Thread.current[:writes] = true
          @changed.signal
        end
        socket.wait_writable([deadline - now, 0].max)
      ensure
        Thread.current[:writes] = false
      end

      # Until the client goes, does not read, or the server ends: a browser comes again then. Others need places, too.
      def stream(socket, answer)
        return send_answer(socket, Answer.text(503, "Too many streams").to_http("GET")) unless begin_stream

        write(socket, answer.to_http("GET")) or return
        nil while !@ending && !gone?(socket) && write(socket, answer.stream.next.b)
      end

      def begin_stream
        @lock.synchronize do
          next false if @connections.count { |thread, _| thread[:streams] } >= STREAMS || Thread.current == @thread

          Thread.current[:streams] = true
        end
      end

      # Waits for a moment. A client says nothing more.
      def gone?(socket, moment = EventStream::LOOK)
        return false unless socket.wait_readable(moment)

        socket.read_nonblock(UNREAD, exception: false).nil?
      end
    end
  end
end
