# frozen_string_literal: true

require "json"

# The cases of test/cases/http1.jsonl: what a client sends, and the expected verdict.
module Cases
  FILE = File.expand_path("../cases/http1.jsonl", __dir__)

  # One case; the fields are described in test/cases/README.md.
  class Case
    attr_reader :id, :house, :conn, :responses, :body, :target, :bytes

    def initialize(fields)
      @id = fields.fetch("id")
      @house = fields.fetch("house")
      @conn = fields.fetch("conn")
      @responses = fields.fetch("responses")
      @body = fields["body"]&.encode(Encoding::ISO_8859_1)&.b
      @target = fields["target"]&.encode(Encoding::ISO_8859_1)&.b
      @half_close = fields.fetch("half_close", false)
      text = fields["raw"] || fields.fetch("parts").map { |string, count| string * count }.join
      @bytes = text.encode(Encoding::ISO_8859_1).b.freeze
    end

    # True when the client sends FIN after the bytes.
    def half_close?
      @half_close
    end

    # True when the first request is a HEAD request, whose response has no body.
    def head?
      bytes.start_with?("HEAD ")
    end
  end

  def self.all
    @all ||= File.readlines(FILE, encoding: Encoding::UTF_8).map { |line| Case.new(JSON.parse(line)) }.freeze
  end

  # The ways to cut a case's bytes into segments. Each returns Arrays of Strings.
  module Segmentation
    SHORT = 200
    SPREAD = 20
    MOST_SEGMENTS = 2_000

    module_function

    def whole(bytes)
      [bytes]
    end

    # One byte a segment; of very long cases only the two ends, where the decisions are.
    def bytes(bytes)
      return bytes.scan(/./mn) if bytes.bytesize <= MOST_SEGMENTS

      edge = (MOST_SEGMENTS / 2) - 100
      middle = bytes.byteslice(edge, bytes.bytesize - (2 * edge))
      step = (middle.bytesize / 200.0).ceil
      bytes.byteslice(0, edge).scan(/./mn) + middle.scan(/.{1,#{step}}/mn) + bytes.byteslice(-edge, edge).scan(/./mn)
    end

    # Cut in two: in every way for short bytes, in twenty ways for long ones.
    def halves(bytes)
      size = bytes.bytesize
      offsets = size <= SHORT ? (1...size) : (1..SPREAD).map { |nth| size * nth / (SPREAD + 1) }
      offsets.map { |offset| [bytes.byteslice(0, offset), bytes.byteslice(offset..)] }
    end

    # Segments of random length, the same ones in each run.
    def random(bytes, seed)
      source = Random.new(seed)
      longest = [bytes.bytesize / 4, 3].max
      segments = []
      until bytes.empty?
        segments << bytes.byteslice(0, source.rand(1..longest))
        bytes = bytes.byteslice(segments.last.bytesize..)
      end
      segments
    end
  end

  # The app that the cases are written for: it answers with what it received.
  class App
    def call(env)
      case env["PATH_INFO"]
      when "/ignore-body" then answer(env, "")
      when "/reject-413" then [413, { "content-type" => "text/plain" }, ["too large\n"]]
      when "/stream" then stream(env)
      else answer(env, env["rack.input"]&.read.to_s)
      end
    end

    private

    def lines(env, body)
      ["M=#{env['REQUEST_METHOD']}\n", "T=#{env['REQUEST_URI']}\n", "B=#{body.unpack1('H*')}\n"]
    end

    def answer(env, body)
      [200, { "content-type" => "text/plain" }, lines(env, body)]
    end

    # Reads in pieces, and answers with a body of unknown length.
    def stream(env)
      body = String.new(encoding: Encoding::BINARY)
      while (piece = env["rack.input"]&.read(3))
        body << piece
      end
      [200, { "content-type" => "text/plain" }, lines(env, body).each_entry.lazy]
    end
  end
end
