# frozen_string_literal: true

require "openssl"
require_relative "cases"
require_relative "server_case"

# Plays the cases of test/cases/http1.jsonl, and compares verdict, connection, number of responses, body and target. The
# outcome may not depend on how the bytes were split. Tests that include it say how a connection is made: #connect_case.
module Http1Cases
  # One case on one connection: a small state machine, so that hundreds of them run at once.
  class Play
    PROBE = "GET /probe HTTP/1.1\r\nHost: a.test\r\n\r\n"
    QUIET = 0.15

    attr_reader :wire_case, :socket, :failure

    # socket: connected; before: bytes of a request that goes first on the same connection, or nil.
    def initialize(socket, wire_case, label, segments, before: nil)
      @wire_case = wire_case
      @label = label
      @segments = segments
      @parser = Wire::Parser.new
      @responses = []
      @failure = nil
      @phase = before ? :before : :sending
      @socket = socket
      transmit(before) if before
    end

    def done?
      @phase == :done
    end

    def sending?
      @phase == :sending
    end

    # Sends the next segment; what the socket does not take stays for the next time.
    def send_segment
      segment = @segments.first
      return finish_sending unless segment

      sent = transmit(segment)
      if sent < segment.bytesize
        @segments[0] = segment.byteslice(sent..)
      else
        @segments.shift
      end
      finish_sending if @segments.empty?
    end

    # Takes what has come. A reset is a failure: it may destroy a response on its way.
    def receive
      until done?
        data = @socket.read_nonblock(65_536, exception: false)
        break if data == :wait_readable

        data ? @parser.feed(data) : @parser.finish
        take_responses
        return at_end unless data
      end
    rescue Wire::Malformed => e
      fail_with("malformed: #{e.message}")
    rescue SystemCallError, OpenSSL::SSL::SSLError => e
      fail_with("connection broke: #{e.class} #{e.message}")
    end

    # Called now and then with the monotonic time: decides what only silence can decide.
    def tick(now)
      return if done? || !@quiet_since

      decide_in_silence if now - @quiet_since > QUIET
    end

    # What changes when bytes go out or come in.
    def progress
      [@segments.size, @phase, @responses.size, @parser.pending]
    end

    def fail_with(text)
      @failure = "#{wire_case.id} (#{@label}): #{text}; wanted #{wire_case.house}, #{wire_case.responses} responses, " \
                 "conn #{wire_case.conn}; got #{@responses.map(&:status)} #{@responses.last&.body.to_s[0, 60].inspect}"
      finish
    end

    private

    def transmit(bytes)
      sent = @socket.write_nonblock(bytes, exception: false)
      sent == :wait_writable ? 0 : sent
    rescue Errno::EPIPE, Errno::ECONNRESET
      bytes.bytesize # the server may have answered and closed already; reading tells
    end

    def finish_sending
      @socket.close_write if wire_case.half_close?
      @phase = :waiting
      @quiet_since = now
      after_response
    rescue Errno::ENOTCONN
      @phase = :waiting
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def take_responses
      while (response = @parser.next_response(head: @phase != :before && @responses.empty? && wire_case.head?))
        @quiet_since = now if @quiet_since
        if @phase == :before
          return fail_with("first request got #{response.status}") unless response.status == 200

          @phase = :sending
        else
          @responses << response
          after_response
        end
      end
    end

    # Enough responses, and everything sent: does the connection still serve the next request?
    def after_response
      return unless @phase == :waiting || @phase == :probing

      if @phase == :probing
        probe_answered
      elsif wire_case.conn == "keep" && @responses.size >= wire_case.responses
        @phase = :probing
        transmit(PROBE)
      end
    end

    def probe_answered
      probe = @responses.pop
      unless probe.body.include?("T=/probe\n")
        return fail_with("the probe's answer is #{probe.status} #{probe.body[0,
                                                                             60].inspect}")
      end

      check
    end

    def at_end
      return if done?
      return fail_with("closed") if %w[keep open].include?(wire_case.conn)

      check
    end

    # For cases that wait, whose connection stays open, or may. What has to come may come later.
    def decide_in_silence
      case wire_case.conn
      when "open" then check unless wrong_verdict || wrong_count
      when "any" then check if @responses.size >= wire_case.responses
      end
    end

    def check
      wrong = wrong_verdict || wrong_count || wrong_content
      wrong ? fail_with(wrong) : finish
    end

    def wrong_verdict
      first = @responses.first
      interim = first ? first.interim : @parser.take_interim
      case wire_case.house
      when "accept" then "not accepted" unless first && (200..299).cover?(first.status)
      when "100" then "no 100" unless interim.first&.status == 100
      when "wait" then "answered" if first || interim.any? || @parser.pending.positive?
      when "close" then "answered" if first
      else "wrong status" unless first && first.status == Integer(wire_case.house)
      end
    end

    def wrong_count
      "#{@responses.size} responses" unless @responses.size == wire_case.responses
    end

    def wrong_content
      return unless wire_case.house == "accept" && !wire_case.head?

      text = @responses.first.body
      return "wrong body" if wire_case.body && !text.include?("\nB=#{wire_case.body.unpack1('H*')}\n")

      "wrong target" if wire_case.target && !text.include?("\nT=#{wire_case.target}\n")
    end

    def finish
      @phase = :done
      @socket.close
    end
  end

  # Connections at once; seconds in which something has to happen; failures after which the rest is left out.
  BATCH = 250
  DEADLINE = 60
  MANY = 40

  # A turn of this many connections may take long, and a head gets one byte in each.
  PATIENT = { header_timeout: 300, body_timeout: 300, min_body_rate: 0, tls_handshake_timeout: 300 }.freeze

  private

  def play(label, before: nil, cases: Cases.all)
    todo = cases.flat_map do |wire_case|
      yield(wire_case.bytes).map do |segments|
        [wire_case, "#{label} #{segments.first(2).map(&:bytesize)}", segments.dup]
      end
    end
    failures = []
    todo.each_slice(BATCH) do |batch|
      plays = batch.map { |wire_case, *rest| Play.new(connect_case, wire_case, *rest, before: before) }
      failures.concat(run_batch(plays))
      break if failures.size > MANY
    end
    assert failures.empty?, "#{failures.size} of #{todo.size} plays failed:\n#{failures.first(MANY).join("\n")}"
  end

  def run_batch(plays)
    last = progress = nil
    until (active = plays.reject(&:done?)).empty?
      unless progress == active.map(&:progress)
        last = now
        progress = active.map(&:progress)
      end
      return give_up(plays, active) if now > last + DEADLINE

      turn(active)
    end
    plays.filter_map(&:failure)
  ensure
    plays.each { |play| play.socket.close unless play.socket.closed? }
  end

  # One segment of each, a pause in which the server takes them, then what has come.
  def turn(active)
    sending = active.select(&:sending?)
    sending.each(&:send_segment)
    sleep 0.0003 if sending.any?
    waiting = active.reject(&:done?)
    readable, = IO.select(waiting.map(&:socket), nil, nil, sending.any? ? 0 : 0.02)
    by_socket = waiting.to_h { |play| [play.socket, play] }
    readable&.each { |socket| by_socket[socket].receive }
    waiting.each { |play| play.tick(now) }
  end

  def give_up(plays, active)
    active.each { |play| play.fail_with("nothing more came in #{DEADLINE} s") }
    plays.filter_map(&:failure)
  end
end
