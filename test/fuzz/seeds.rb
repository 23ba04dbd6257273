# frozen_string_literal: true

require "fileutils"
require "json"
require "openssl"
require "socket"
require_relative "../support/http2_cases"

# Inputs for the fuzz targets, made of the cases in test/cases/http1.jsonl: each target gets the part
# of the bytes that it is about. An input's first bytes say how it is played (test/fuzz/fuzz.h).
module FuzzSeeds
  CASES = File.expand_path("../cases/http1.jsonl", __dir__)
  # Longer inputs slow the fuzzer down, and say no more.
  MOST = 2048
  WHOLE = "\x00".b
  # Three segments in turn, of 1, 7 and 41 bytes.
  CUT = [3 << 1, 0, 6, 40].pack("C*")
  TIGHT = "\x01".b

  # Writes the inputs of each target into a folder of its name below `folder`.
  def self.write(folder)
    inputs.each do |target, bytes|
      FileUtils.mkdir_p(File.join(folder, target))
      bytes.uniq.each_with_index do |input, nth|
        File.binwrite(File.join(folder, target, format("case-%04d", nth)), input)
      end
    end
  end

  # The inputs by target.
  def self.inputs
    cases = File.foreach(CASES).map { |line| bytes(JSON.parse(line)) }
    bodies = cases.filter_map { |raw| raw[/^transfer-encoding:.*?\r\n\r\n(.+)/mni, 1] }
    { "connection" => played(cases), "head" => played(cases),
      "chunk" => played(bodies),
      "trailer" => played(bodies.filter_map { |body| body[/(?:\A|\n)0+[^\r\n]*\r\n(.+)/mn, 1] }),
      "target" => targets(cases), "write" => fields(cases), "proxy" => proxy_headers, "forwarded" => forwarded,
      "http2" => played(http2), "tls" => played(hellos) + talks }
  end

  # What the client of a case sends.
  def self.bytes(the)
    text = the["raw"] || the["parts"].map { |part, times| part * times }.join
    text.encode(Encoding::ISO_8859_1).b
  end

  def self.played(inputs)
    inputs = inputs.map { |input| input[0, MOST] }
    [WHOLE, CUT, TIGHT].flat_map { |choice| inputs.map { |input| choice + input } }
  end

  # What the clients of the cases of HTTP/2 send behind their prefaces.
  def self.http2 = Http2Cases.all.map { |the| the.parts.join }

  # How clients of TLS begin, and the same with a byte that is wrong.
  def self.hellos
    hellos = [%i[TLS1_2 a.example], %i[TLS1_3 x.b.example], %i[TLS1_3]].map do |version, name|
      hello(OpenSSL::SSL.const_get("#{version}_VERSION"), name)
    end
    hellos + hellos.flat_map { |bytes| [9, 43, 80, 120].map { |at| bytes.dup.tap { |copy| copy.setbyte(at, 255) } } }
  end

  def self.hello(version, name)
    ours, peers = UNIXSocket.pair
    context = OpenSSL::SSL::SSLContext.new
    context.min_version = context.max_version = version
    context.alpn_protocols = %w[h2 http/1.1] if name
    client = OpenSSL::SSL::SSLSocket.new(ours, context)
    client.hostname = name.to_s if name
    client.connect_nonblock(exception: false)
    peers.readpartial(MOST)
  ensure
    [ours, peers].each(&:close)
  end

  # What follows a handshake: pairs of bytes, of which the first says what the client does.
  def self.talks
    deeds = ["\0\1\0\1\1\xff\7\0", "\4\0\4\1\0\2\x44\1", "\5\0\0\1\5\1",
             "\6\x08\x17\3\3\0\3bad", "\1\3\7\0\6\7\x15\3\3\0\2\1\0", "\4\1" * 200, "\x41\x05" * 20]
    deeds.flat_map { |text| [text.b, "#{text}\0".b] }.map { |text| "\x80".b + text }
  end

  # Request targets with the blank behind them, and what a Host field says.
  def self.targets(cases)
    texts = cases.filter_map { |raw| raw[/\A\S+ (\S+ )/n, 1] } + cases.filter_map { |raw| raw[/^host: *(.*?)\r$/ni, 1] }
    ["\x00\x00", "\x01\x04", "\x02\x08"].flat_map { |choice| texts.map { |text| choice.b + text[0, MOST] } }
  end

  # How connections of proxies begin.
  def self.proxy_headers
    signature = "\r\n\r\n\0\r\nQUIT\n".b
    headers = ["PROXY TCP4 1.2.3.4 5.6.7.8 1 65535\r\n", "PROXY TCP6 2001:db8::1 ::1 1 2\r\nGET", "PROXY UNKNOWN x\r\n",
               "PROXY UNKNOWN #{'x' * 100}", "GET / HTTP/1.1\r\n", "#{signature}\x20\0\0\0",
               "#{signature}\x21\x11\0\x0C#{"\1" * 12}", "#{signature}\x21\x21\0\x28#{"\1" * 40}",
               "#{signature}\x21\x31\0\xD8#{"\1" * 216}"]
    [1, 2, 3, 5, 7, 11].flat_map { |choice| headers.map { |header| [choice].pack("C") + header.b } }
  end

  # Values of the fields by which proxies name a client; each line's first byte takes the field.
  def self.forwarded
    values = ["_192.0.2.1, 10.0.0.2", "_[2001:db8::1]:80,10.0.0.2:5", "_unknown", "ahttps, http", "b192.0.2.1 x",
              "`for=192.0.2.1;proto=https, for=10.0.0.2", "`for=\"[2001:db8::1]:_p\";by=x", "`for=\"1, for=10.0.0.2",
              "`for=_hidden;x=\"a\\\",b\"", "_1\n_10.0.0.2\nahttps\n`proto=http"]
    (0..3).flat_map { |choice| [*values, values.join("\n")].map { |value| [choice].pack("C") + value } }
  end

  def self.fields(cases)
    cases.flat_map { |raw| raw.scan(/^([^:\n]{1,60}): ?([^\n]*)/n) }.map do |name, value|
      [name.bytesize].pack("C") + name + value[0, MOST]
    end
  end
end
