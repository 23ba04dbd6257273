# frozen_string_literal: true

require_relative "http2_client"

# What has brought servers of HTTP/2 down, as a client plays it on one connection.
module Http2Attacks
  # before: what is sent first; code: of the GOAWAY that it comes to; play: gets the Http2Client, returns when nothing
  # more is wanted of it.
  Attack = Struct.new(:before, :code, :play)

  CALM = "ENHANCE_YOUR_CALM"
  PREFACE = "preface #{Http2Client::SETTINGS}".freeze
  GET = "headers $ es,eh :get"
  # A response of 10 MB, and one that is small.
  LARGE = "headers $ es,eh 8287 0406'/large' 0106'a.test'"
  POST = "headers 1 eh :post"
  SHUT = "preface settings 0 - 0004 00000000 0001 00000000"
  OPEN = "preface settings 0 - 0004 7fffffff window_update 0 - 7fff0000"
  AT_MOST = 20_000 # frames of a flood

  # Sends the words again and again, each time with another stream, until the server has enough.
  def self.flood(words, first: nil, reads: true)
    play = lambda do |client|
      client.send_words(first) if first
      (0..AT_MOST).step(50) do |at|
        bytes = Array.new(50) { |nth| Http2Frames.bytes(words, stream: 101 + (2 * (at + nth))) }.join
        break unless client.write(bytes)

        client.read_available if reads
        break if client.goaway || client.ended?
      end
    end
    Attack.new(PREFACE, CALM, play)
  end

  def self.ends(code, before: PREFACE, &play) = Attack.new(before, code, play || ->(_client) {})

  # Frames that cost little.
  FRAMES = {
    pings: flood("ping 0 - 0000000000000000"),
    pings_whose_answers_are_not_read: flood("ping 0 - 0000000000000000", reads: false),
    settings: flood("settings 0 - 0004 0000ffff"),
    settings_whose_acks_are_not_read: flood("settings", reads: false),
    priorities: flood("priority 1 - 0000000010"),
    priority_updates: flood("priority_update 0 - 00000001 'u=1'"),
    unknown_frames: flood("0x42 0 - 00"),
    empty_data: flood("data 1 -", first: POST),
    padding: flood("data 1 pad 03 000000", first: POST),
    data_of_a_byte: flood("data 1 - 'x'", first: POST),
    window_updates: flood("window_update 0 - 00000001")
  }.freeze

  # Streams that are reset, by either side.
  RESETS = {
    rapid_resets: flood("#{GET} rst_stream $ - 00000008"),
    rapid_resets_that_are_not_read: flood("#{GET} rst_stream $ - 00000008", reads: false),
    made_you_reset_by_windows: flood("headers $ es,eh :get window_update $ - 7fffffff"),
    made_you_reset_by_lengths: flood("headers $ eh :post3 data $ es 'ab'"),
    malformed_requests: flood("headers $ es,eh :get 00 01'A' 01'b'"),
    more_streams_than_allowed: flood("headers $ eh :post")
  }.freeze

  FIELDS = {
    continuations: ends(CALM) { |client| client.send_words("headers 1 es :get #{"continuation 1 - " * 9}") },
    references_to_one_field: ends(CALM) do |client|
      client.send_words("headers 1 es :get 40 01'a' 01'b'")
      8.times { client.send_words("continuation 1 - be*16000") || break }
    end,
    a_head_without_end: ends(CALM) do |client|
      client.send_words("headers 1 es :get")
      20.times { |nth| client.send_words("continuation 1 - 00 02'x#{nth % 10}' 7f817c 78*16000") || break }
    end
  }.freeze

  # What takes its time.
  SLOW = {
    a_preface_without_settings: ends("NO_ERROR", before: "preface"),
    a_slow_block: ends("NO_ERROR") do |client|
      client.send_words("headers 1 es :get")
      8.times do
        sleep 0.2
        client.send_words("continuation 1 -") || break
      end
    end
  }.freeze

  # All that end with their connection.
  ENDING = { **FRAMES, **RESETS, **FIELDS, **SLOW }.freeze

  # Responses that are not read, or hardly: their streams end, or the connection.
  UNREAD = {
    a_window_of_nothing: ends(nil, before: SHUT) do |client|
      50.times { |nth| client.send_words(LARGE, stream: (2 * nth) + 1) }
    end,
    a_window_that_opens_byte_by_byte: ends(nil, before: SHUT) do |client|
      client.send_words(LARGE, stream: 1)
      200.times do
        sleep 0.05
        client.send_words("window_update 1 - 00000001")
        client.read_available
        break if client.reset(1) || client.ended?
      end
    end,
    responses_that_are_not_read: ends(nil, before: OPEN) do |client|
      20.times { |nth| client.send_words(LARGE, stream: (2 * nth) + 1) }
      sleep 4
    end
  }.freeze

  ALL = { **ENDING, **UNREAD }.freeze
end
