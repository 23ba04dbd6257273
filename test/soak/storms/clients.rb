# frozen_string_literal: true

require_relative "../../support/wire"

module Storms
  # Clients on threads, which ask again and again, and note what goes wrong. As clients do, they ask once more when a
  # kept connection was closed before an answer began (RFC 9112 9.3.1): that is no failure, but it is counted, since a
  # server that says `Connection: close` first makes it rare.
  class Clients
    KEPT = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
    CLOSING = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
    # What a browser and others ask for: bodies in both framings, and a response in pieces.
    MIXED = [KEPT, "GET /pieces HTTP/1.1\r\nHost: a.test\r\n\r\n",
             "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\n12345",
             "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n"].freeze
    BROKEN = [EOFError, Errno::EPIPE, Errno::ECONNRESET].freeze
    # Seconds before a client that got no connection tries again.
    PAUSE = 0.01
    SINGLE = 6
    # Seconds from which a client is late with its first request: a server that drains waits for it, but not for long.
    LATE = 0.5
    private_constant :PAUSE, :SINGLE, :LATE

    # kind: :connect, no connection; :fresh, closed before the first answer; :late, the same when the client was late
    # with its request; :kept, closed between two requests; :partial, closed in an answer; :wrong, another answer, or
    # none in time. worker: the process that has answered on this connection, if any has. began: when the request did.
    Note = Struct.new(:kind, :text, :worker, :began)

    # @param port [Integer]
    # @param count [Integer] of clients: each sixth one has a connection for each request, the others keep theirs
    # @param asking [Array<String>] requests of those that keep their connections, in turns
    # @param pause [Numeric] seconds between two requests
    # @param patience [Numeric] seconds that an answer may take
    def initialize(port, count, asking: [KEPT], pause: 0, patience: 60)
      @port = port
      @asking = asking
      @pause = pause
      @patience = patience
      @running = true
      @counts = Array.new(count, 0)
      @notes = Array.new(count) { [] }
      @threads = Array.new(count) { |nth| Thread.new { work(nth, (nth % SINGLE).positive?) } }
    end

    # @return [Integer] so far
    def answers = @counts.sum

    # @return [Array<Note>] so far
    def notes = @notes.flatten

    # Ends them all; idempotent.
    def stop
      @running = false
      @threads.each(&:join)
      self
    end

    private

    def work(nth, kept)
      connection(nth, kept) while @running
    end

    def connection(nth, kept)
      worker = written = nil
      began = now
      client = Wire::Client.new(@port, timeout: @patience)
      while @running
        began = now if worker
        client.write(kept ? @asking[@counts[nth] % @asking.size] : CLOSING)
        written = now
        response = client.read
        worker = take(nth, response, worker, began) or return
        sleep @pause if @pause.positive?
        return if response.close?
      end
    rescue SystemCallError, EOFError, Wire::Late, Wire::Malformed => e
      kind = kind(e, client, worker, (written || now) - began)
      note(nth, kind, "#{e.message} (#{e.class})", worker, began)
      sleep PAUSE unless client
    ensure
      client&.close
    end

    # Returns the worker that has answered; nil after a wrong answer.
    def take(nth, response, worker, began)
      if response.status == 200
        @counts[nth] += 1
        return Integer(response.body, 10)
      end
      note(nth, :wrong, "status #{response.status}", worker, began)
    end

    # took: seconds until the request was sent.
    def kind(error, client, worker, took)
      return :connect unless client
      return :partial if error.is_a?(Wire::Cut)
      return :wrong unless BROKEN.include?(error.class)
      return :partial unless client.parser.pending.zero?

      return :kept if worker

      took > LATE ? :late : :fresh
    end

    def note(nth, *fields)
      @notes[nth] << Note.new(*fields)
      nil
    end

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
