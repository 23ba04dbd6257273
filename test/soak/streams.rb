# frozen_string_literal: true

require "digest"
require_relative "../support/http2_client"

module Soak
  # What a client does that speaks HTTP/2: many requests at once on one connection, some of which it resets.
  module Streams
    # name => shares, as in Actions.
    SHARES = {
      streams_at_once: 8, streams_post: 5, streams_reset: 5, streams_at_the_end: 3, streams_left: 4, streams_unread: 2,
      streams_files: 5, streams_dropped: 6
    }.freeze
    FILE = File.read(File.join(__dir__, "config.ru"))
    # path => statuses, and the body where it is known.
    ANSWERS = {
      "/hello" => [[200], "Hello World\n"], "/sleep" => [[200], "slept"], "/pieces" => [[200], "x" * 20_000],
      "/stream" => [[200], "x" * 20_000], "/large" => [[200], "y" * 1_000_000], "/file" => [[200], FILE.b],
      "/long_file" => [[200], "f" * 300_000],
      "/boom" => [[500]], "/late" => [[504, 200]], "/edge" => [[200, 504]], "/hints" => [[200], "hinted"],
      "/thread" => [[200], "joined"], "/nowhere" => [[404]]
    }.freeze
    LONG = 16_000 # bytes of a body: four of them fit into the window that a connection begins with
    # Whatever the server has to send may come.
    WIDE = "preface settings 0 - 0001 00000000 0004 7fffffff window_update 0 - 7fff0000"
    CANCEL = "00000008"

    def streams_at_once
      speak(WIDE) do |http2|
        expect_streams(http2, begin_streams(http2, @random.rand(1..20)))
        expect_streams(http2, begin_streams(http2, 1, from: 101)) # the connection is as good as before
      end
    end

    def streams_post
      speak(WIDE) do |http2|
        bodies = Array.new(@random.rand(1..4)) { |nth| [(2 * nth) + 1, @random.bytes(@random.rand(1..LONG))] }.to_h
        bodies.each_key { |stream| http2.send_words("headers #{stream} eh #{block("/digest", "POST")}") }
        send_bodies(http2, bodies)
        await(http2, bodies.keys)
        bodies.each { |stream, body| expect_stream(http2, stream, [[200], Digest::SHA256.hexdigest(body)]) }
      end
    end

    # Some of them are taken back, at any moment.
    def streams_reset
      speak(WIDE) do |http2|
        paths = begin_streams(http2, @random.rand(2..20))
        sleep(@random.rand(0.0..0.06))
        taken_back = paths.keys.sample(paths.size / 2, random: @random)
        taken_back.each { |stream| http2.send_words("rst_stream #{stream} - #{CANCEL}") }
        expect_streams(http2, paths.except(*taken_back))
        expect_streams(http2, begin_streams(http2, 1, from: 101))
      end
    end

    # Long ones, through windows that open now and then; some are taken back amid.
    def streams_files
      speak("preface settings 0 - 0001 00000000 0004 00007000 window_update 0 - 7fff0000") do |http2|
        files = Array.new(@random.rand(2..8)) { |nth| (2 * nth) + 1 }
        files.each { |stream| http2.send_words("headers #{stream} es,eh #{block("/long_file")}") }
        taken_back = files.sample(files.size / 2, random: @random)
        files.each { |stream| http2.send_words("window_update #{stream} - #{format("%08x", @random.rand(1..40_000))}") }
        await(http2, files) { |stream| http2.of("data", stream).any? }
        taken_back.each { |stream| http2.send_words("rst_stream #{stream} - #{CANCEL}") }
        (files - taken_back).each { |stream| http2.send_words("window_update #{stream} - 00100000") }
        expect_streams(http2, (files - taken_back).to_h { |stream| [stream, "/long_file"] })
      end
    end

    # The answer, the deadline and the reset meet.
    def streams_at_the_end
      speak(WIDE) do |http2|
        streams = Array.new(5) { |nth| (2 * nth) + 1 }
        streams.each { |stream| http2.send_words("headers #{stream} es,eh #{block("/edge")}") }
        sleep(@random.rand(0.015..0.025))
        streams.each { |stream| http2.send_words("rst_stream #{stream} - #{CANCEL}") }
        expect_streams(http2, begin_streams(http2, 1, from: 101))
      end
    end

    # With everything that is on its way, in both directions.
    def streams_left
      speak(WIDE) do |http2|
        begin_streams(http2, @random.rand(1..20))
        http2.send_words("headers 99 eh #{block("/digest", "POST")} data 99 - 7a*5000")
        sleep(@random.rand(0.0..0.1))
        http2.socket.setsockopt(:SOCKET, :LINGER, [1, 0].pack("ii"))
      end
    end

    # Connections end behind 20 requests each, one after the other, in all the ways that there are.
    def streams_dropped
      @random.rand(1..8).times do
        speak(WIDE) do |http2|
          20.times { |nth| http2.send_words("headers #{(2 * nth) + 1} es,eh #{block("/hello")}") }
          http2.send_words("window_update 0 - 00000000") if @random.rand(2).zero?
          sleep(@random.rand(0.0..0.01))
          20.times { |nth| http2.send_words("rst_stream #{(2 * nth) + 1} - #{CANCEL}") } if @random.rand(2).zero?
          http2.socket.setsockopt(:SOCKET, :LINGER, [1, 0].pack("ii")) if @random.rand(2).zero?
        end
      end
    end

    # Nobody makes room in the windows, so that the responses stand still; others on the connection do not.
    def streams_unread
      speak("preface settings 0 - 0001 00000000 0004 00000010 window_update 0 - 7fff0000") do |http2|
        [1, 3, 5].each { |stream| http2.send_words("headers #{stream} es,eh #{block("/large")}") }
        http2.send_words("headers 7 es,eh #{block("/hello")}")
        await(http2, [7])
        expect_stream(http2, 7, ANSWERS.fetch("/hello"))
        sleep(@random.rand(0.0..0.2))
      end
    end

    private

    def speak(words)
      http2 = open_http2(words)
      yield http2
    ensure
      http2&.close
    end

    # stream => path
    def begin_streams(http2, count, from: 1)
      paths = Array.new(count) { |nth| [from + (2 * nth), ANSWERS.keys.sample(random: @random)] }.to_h
      paths.each { |stream, path| http2.send_words("headers #{stream} es,eh #{block(path)}") }
      paths
    end

    # In turns, in frames of any length.
    def send_bodies(http2, bodies)
      rest = bodies.transform_values(&:dup)
      until rest.empty?
        stream = rest.keys.sample(random: @random)
        piece = rest[stream].slice!(0, @random.rand(1..8000))
        ends = rest[stream].empty?
        http2.write(Http2Frames.frame(0, ends ? 1 : 0, stream, piece))
        rest.delete(stream) if ends
      end
    end

    def expect_streams(http2, paths)
      await(http2, paths.keys)
      paths.each { |stream, path| expect_stream(http2, stream, ANSWERS.fetch(path), path) }
    end

    # Until each of them has come to its end, or as far as the block says.
    def await(http2, streams)
      http2.read_until(within: @patience) do
        streams.all? { |stream| http2.complete?(stream) || http2.reset(stream) || (block_given? && yield(stream)) }
      end
    end

    def expect_stream(http2, stream, (statuses, body), path = nil)
      failure = http2.reset(stream) || (http2.goaway unless http2.complete?(stream))
      raise Actions::Wrong, "#{path}: #{failure}" if failure
      raise Actions::Wrong, "#{path}: the connection has ended" unless http2.complete?(stream)
      raise Actions::Wrong, "#{path}: status #{http2.status(stream)}" unless statuses.include?(http2.status(stream))

      length = http2.body(stream).bytesize
      raise Actions::Wrong, "#{path}: #{length} bytes that are wrong" unless body.nil? || http2.body(stream) == body.b
    end

    # The fields of a request, as words.
    def block(path, method = "GET")
      "#{method == "GET" ? "82" : "83"}86 04#{hex(path)} 01#{hex("a.test")}"
    end

    def hex(text) = format("%02x", text.bytesize) + text.unpack1("H*")
  end
end
