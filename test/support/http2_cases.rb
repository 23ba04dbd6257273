# frozen_string_literal: true

require_relative "http2_client"

# The cases of test/cases/http2.txt, which says how they are written, and how one is played over a socket.
module Http2Cases
  FILE = File.expand_path("../cases/http2.txt", __dir__)

  Case = Struct.new(:id, :lines) do
    def raw? = lines.first == "raw"
    def outcomes = lines.grep(/\A</).map { |line| line.split.drop(1) }
    # The client ends the connection itself.
    def left? = lines.grep(/\A> goaway 0/).any?
    def may_fail? = outcomes.map(&:first).intersect?(%w[end error refuse goaway either])

    # What is sent, in turn: Arrays of bytes, one for each line; between them is a wait.
    def parts
      lines.grep_v(/\A(<|raw)/).slice_when { |_, line| line == "wait" }.map do |part|
        (part - ["wait"]).flat_map { |line| bytes_of(line) }
      end
    end

    private

    def bytes_of(line)
      return Http2Frames.bytes(line.delete_prefix(">")) unless line.start_with?("repeat ")

      _, times, words = line.split(" ", 3)
      Array.new(Integer(times)) { |nth| Http2Frames.bytes(words, stream: (2 * nth) + 1) }
    end
  end

  def self.all
    @all ||= File.read(FILE).split(/^case /).drop(1).map do |text|
      id, *lines = text.lines(chomp: true).reject { |line| line.empty? || line.start_with?("#") }
      Case.new(id, lines)
    end.freeze
  end

  SEGMENTATIONS = {
    whole: ->(lines) { [lines.join] },
    bytes: ->(lines) { lines.join.scan(/./mn) },
    sevens: ->(lines) { lines.join.scan(/.{1,7}/mn) },
    lines: ->(lines) { lines }
  }.freeze

  # The app of the cases: what is sent to it is read.
  APP = lambda do |env|
    env["rack.input"]&.read
    [200, { "content-type" => "text/plain" }, ["hello"]]
  end

  # Plays all on a port; returns what failed. through: of Http2Client.
  def self.failures(port, segmentation, through: nil)
    all.filter_map { |the| Play.new(port, the, segmentation, through: through).run.failure }
  end

  # One case on one connection.
  class Play
    ALIVE = "616c697665212121"
    PROBE = 2001

    # What did not come out as it must: nil, or a sentence.
    attr_reader :failure

    def initialize(port, the, segmentation, through: nil)
      @case = the
      @cut = SEGMENTATIONS.fetch(segmentation)
      @label = "#{the.id}, #{segmentation}"
      @ended = []
      before = "preface #{Http2Client::SETTINGS}" unless the.raw?
      @client = Http2Client.new(port, before: before, through: through)
    end

    def run
      @case.parts.each_with_index do |lines, nth|
        wait if nth.positive?
        @cut.call(lines).each { |segment| @client.write(segment) || break }
        note_ended(lines.join)
      end
      probe
      @failure = check
      self
    rescue Wire::Late => e
      @failure = "#{@label}: #{e.message}"
      self
    ensure
      @client.close
    end

    private

    # Streams that the client has ended are answered.
    def note_ended(bytes)
      frames = Http2Frames.take(bytes.delete_prefix(Http2Frames::PREFACE))
      @ended |= frames.select { |frame| frame.type < 2 && frame.flag?("es") }.map(&:stream)
    end

    # The server has answered what there is, as far as the windows allow.
    def wait
      @client.read_until { @ended.all? { |stream| @client.status(stream) } }
      @client.send_words("ping 0 - 7761697421212121")
      @client.read_until { @client.pong?("7761697421212121") }
    end

    # A further request and a PING are answered, unless the connection ends; and so is all that was to be answered.
    def probe
      @client.send_words("headers #{PROBE} es,eh :head ping 0 - #{ALIVE}")
      @client.read_until { (alive? && @case.outcomes.all? { |outcome| holds?(outcome) }) || @client.ended? }
    end

    def alive? = @client.pong?(ALIVE) && (@client.complete?(PROBE) || @client.reset(PROBE))

    def check
      wrong = @case.outcomes.reject { |outcome| holds?(outcome) }
      wrong << ["a PING and a request are answered"] unless @case.may_fail? || @case.left? || alive?
      "#{@label}: #{wrong.inspect} #{@client.frames.last(8)}" unless wrong.empty?
    end

    def holds?((what, first, second, third))
      stream = first.to_i
      case what
      when "answer" then answer?(stream, second)
      when "error" then error?(stream, second)
      when "refuse" then answer?(stream, second) || error?(stream, third)
      when "goaway" then code?(@client.goaway, first) && @client.ended?
      when "data" then @client.of("data", stream).map { |frame| frame.payload.bytesize }.join(",") == second
      when "silent" then @client.frames.none? { |frame| frame.stream == stream }
      else connection?(what, first)
      end
    end

    def answer?(stream, status) = @client.status(stream) == Integer(status) && @client.complete?(stream)

    def error?(stream, code)
      code?(@client.reset(stream), code) || (code?(@client.goaway, code) && @client.ended?)
    end

    def connection?(what, hex)
      case what
      when "pong" then @client.pong?(hex)
      when "nopong" then !@client.pong?(hex)
      when "end" then @client.ended?
      when "settings" then @client.of("settings").any?
      when "ack" then @client.of("settings").any? { |frame| frame.flag?("ack") }
      else what == "either"
      end
    end

    def code?(code, names) = code && names.split("|").include?(code)
  end
end
