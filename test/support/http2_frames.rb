# frozen_string_literal: true

# Frames of HTTP/2 in words, as test/c/http2/frames.h describes them, and what comes back.
module Http2Frames
  PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".b.freeze
  TYPES = %w[data headers priority rst_stream settings push_promise ping goaway window_update continuation].freeze
  NUMBERS = TYPES.each_with_index.to_h.merge("priority_update" => 0x10).freeze
  FLAGS = { "-" => 0, "es" => 1, "ack" => 1, "eh" => 4, "pad" => 8, "pri" => 32 }.freeze
  # As those of frames.h.
  BLOCKS = {
    ":get" => "8287840106'a.test'", ":post" => "8387840106'a.test'", ":head" => "0204'HEAD'87840106'a.test'",
    ":post1" => "8387840106'a.test'0f0d01'1'", ":post3" => "8387840106'a.test'0f0d01'3'",
    ":trailer" => "0003'x-t'01'1'"
  }.freeze
  CODES = %w[NO_ERROR PROTOCOL_ERROR INTERNAL_ERROR FLOW_CONTROL_ERROR SETTINGS_TIMEOUT STREAM_CLOSED FRAME_SIZE_ERROR
             REFUSED_STREAM CANCEL COMPRESSION_ERROR CONNECT_ERROR ENHANCE_YOUR_CALM INADEQUATE_SECURITY
             HTTP_1_1_REQUIRED].freeze

  Frame = Struct.new(:type, :flags, :stream, :payload) do
    def is?(name, of = stream) = type == NUMBERS.fetch(name) && stream == of
    def flag?(name) = flags.anybits?(FLAGS.fetch(name))
    # The code of RST_STREAM or GOAWAY.
    def code = CODES.fetch(payload.byteslice(type == NUMBERS["goaway"] ? 4 : 0, 4).unpack1("N"))
  end

  module_function

  # The bytes that the words stand for; stream is what "$" is.
  def bytes(words, stream: nil)
    frames(words.split, stream).join
  end

  # A frame's bytes, or those of the preface, for each run of words.
  def frames(words, stream)
    starts = words.each_index.select { |at| start?(words, at) }
    starts.each_with_index.map do |from, nth|
      one(words[from...(starts[nth + 1] || words.size)], stream)
    end
  end

  # What is a stream or flags cannot be a type: 0x42 is either.
  def start?(words, at)
    word = words[at]
    return true if word == "preface" || word == "raw" || NUMBERS.key?(word)

    word.start_with?("0x") && !(at.positive? && words[at - 1].match?(/\A(\d+|\$)\z/) && start?(words, at - 2))
  end

  def one(words, stream)
    type, target, flags, *payload = words
    return PREFACE if type == "preface"
    return payload_of(words.drop(1)) if type == "raw"

    length = payload.filter_map { |word| word[/\Alen=(\d+)/, 1] }.first
    payload = payload_of(payload.grep_v(/\Alen=/))
    frame(NUMBERS[type] || Integer(type, 16), flags_of(flags || "-"), target == "$" ? stream : target.to_i, payload,
          length: length ? Integer(length) : payload.bytesize)
  end

  def frame(type, flags, stream, payload, length: payload.bytesize)
    [length >> 16, length & 0xffff, type, flags, stream].pack("CnCCN") + payload
  end

  def flags_of(text) = text.split(",").sum { |name| FLAGS[name] || Integer(name, 16) }

  def payload_of(words)
    words.each_with_object(String.new(encoding: Encoding::BINARY)) do |word, payload|
      BLOCKS.fetch(word, word).scan(/'([^']*)'|\*(\d+)|(\h\h)/) do |text, times, hex|
        payload << (text || (times ? payload[-1] * (Integer(times) - 1) : [hex].pack("H*"))).b
      end
    end
  end

  # Takes the whole frames off the front of `buffer`.
  def take(buffer)
    frames = []
    while buffer.bytesize >= 9
      high, low, type, flags, stream = buffer.unpack("CnCCN")
      length = (high << 16) + low
      break if buffer.bytesize < 9 + length

      frames << Frame.new(type, flags, stream & 0x7fffffff, buffer.byteslice(9, length))
      buffer.replace(buffer.byteslice((9 + length)..))
    end
    frames
  end

  STATUSES = { 8 => 200, 9 => 204, 10 => 206, 11 => 304, 12 => 400, 13 => 404, 14 => 500 }.freeze
  # Huffman codes of digits (RFC 7541 appendix B): those of 0 to 2 have 5 bits.
  DIGITS = (0..2).to_h { |digit| [format("%05b", digit), digit] }
                 .merge((3..9).to_h { |digit| [format("%06b", 0b011001 + digit - 3), digit] }).freeze

  # The status in a block: its first field, behind an update of the table's size. There is no dynamic table,
  # because the client has announced one of size 0.
  def status(block)
    block = block.byteslice(1..) if block.getbyte(0) == 0x20
    first = block.getbyte(0)
    return STATUSES.fetch(first & 0x7f) if first.anybits?(0x80)

    length = block.getbyte(1)
    value = block.byteslice(2, length & 0x7f)
    return Integer(value) unless length.anybits?(0x80)

    value.unpack1("B*").scan(/000(?:00|01|10)|011\d\d\d/).first(3).map { |code| DIGITS.fetch(code) }.join.to_i
  end
end
