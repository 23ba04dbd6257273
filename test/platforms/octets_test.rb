# frozen_string_literal: true

require "test_helper"
require "rbconfig"
require "support/cases"
require "support/process_case"
require "support/test_build"

# What a client gets for the cases of test/cases/http1.jsonl, of a server of the usual build and of one of the portable
# build: the same bytes, but for the date, and the same end.
class OctetsTest < Minitest::Test
  include ProcessCase

  ROOT = File.expand_path("../..", __dir__)
  RACKUP = <<~RUBY.freeze
    require #{File.join(ROOT, 'test/support/cases').dump}
    run Cases::App.new
  RUBY
  DATE = /^Date: [^\r]+/i
  # Seconds in which nothing comes to any client: nothing will.
  QUIET = 1.0

  # A client: what it sends, and what comes.
  Client = Struct.new(:socket, :segments, :half_close, :bytes, :closed) do
    def send_one
      return if segments.empty?

      socket.write(segments.shift)
      socket.close_write if segments.empty? && half_close
    rescue Errno::EPIPE, Errno::ECONNRESET, Errno::ENOTCONN
      segments.clear # it has been answered, and closed
    end

    def take
      bytes << socket.readpartial(65_536)
    rescue EOFError, Errno::ECONNRESET
      self.closed = true
    end

    def outcome = [bytes.gsub(DATE, "Date: now"), closed ? :closed : :open]
  end

  def test_whole = compare { |bytes| [bytes] }

  def test_byte_by_byte = compare { |bytes| Cases::Segmentation.bytes(bytes) }

  def test_random_segments = compare { |bytes| Cases::Segmentation.random(bytes, 1) }

  private

  def compare(&)
    servers = [serve_with({}), serve_with(TestBuild.environment("portable"))]
    usual, portable = servers.map { |server| play(server.port, &) }
    assert_equal [false, true], servers.map { |server| server.text.include?("Platform: poll, without sendfile") }
    assert_operator usual.count { |bytes, _| bytes.start_with?("HTTP/1.1 ") }, :>, 200
    differing = Cases.all.zip(usual, portable).reject { |_, one, other| one == other }
    assert_empty(differing.map { |wire_case, one, other| [wire_case.id, one, other] })
  end

  # The command, with this environment.
  def serve_with(environment)
    File.write(File.join(@directory, "config.ru"), RACKUP)
    output = File.join(@directory, "output.#{@commands.size}")
    pid = Process.spawn(environment, RbConfig.ruby, "-I#{File.join(ROOT, 'lib')}", COMMAND, "--no-config",
                        "-b", "tcp://127.0.0.1:0", "-e", "production",
                        chdir: @directory, in: File::NULL, %i[out err] => [output, "w"])
    Command.new(pid, output).tap { |command| @commands << command }
  end

  def play(port)
    clients = Cases.all.map do |wire_case|
      Client.new(TCPSocket.new("127.0.0.1", port), yield(wire_case.bytes).dup, wire_case.half_close?, +"".b, false)
    end
    turn(clients) while clients.any? { |client| client.segments.any? }
    nil while turn(clients, QUIET)
    clients.map(&:outcome)
  ensure
    clients&.each { |client| client.socket.close }
  end

  # Nil when nothing came.
  def turn(clients, seconds = 0)
    clients.each(&:send_one)
    waiting = clients.reject(&:closed).to_h { |client| [client.socket, client] }
    IO.select(waiting.keys, nil, nil, seconds)&.first&.each { |socket| waiting[socket].take }
  end
end
