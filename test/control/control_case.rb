# frozen_string_literal: true

require "abaca"
require "abaca/control"
require "abaca/control/cli"
require "stringio"
require "tmpdir"

# For tests of the control server in this process: it starts one for a launcher that only notes what it is told, and
# checks that no thread and no socket is left.
module ControlCase
  Control = Abaca::Control

  # A launcher that can do some of what there is.
  class Launcher
    attr_reader :calls

    def initialize = @calls = []

    def stop = @calls << :stop
    def halt = @calls << :halt
    def restart = @calls << :restart
    def phased_restart = false
    def stats = { backlog: 0, text: "two\nlines", abaca: { v: 1 } }
    def server = nil
    def dump = nil
  end

  def setup
    super
    @dir = Dir.mktmpdir("abaca")
    @threads = Thread.list
    @servers = []
    @log = StringIO.new
  end

  def teardown
    @servers.each(&:close)
    assert_empty(Thread.list.select { |thread| thread.name.to_s.start_with?("abaca control") } - @threads)
    assert_empty Dir.children(@dir).grep(/sock/)
    FileUtils.remove_entry(@dir)
    super
  end

  def launcher = @launcher ||= Launcher.new

  # Starts a server; returns the address that it has.
  def control(url = "unix://#{@dir}/control.sock", token: "none", others: {}, acts: nil, **options)
    address = Control::Address.parse(url)
    guard = @guard = Control::Guard.new(address, token, others)
    log = @logger = Abaca::Log.new(@log)
    places = Control::Places.new(address)
    acts ||= Control::Acts.new(launcher, log:)
    commands = Control::Commands.new(acts, board: Control::Front.new(places, guard), **options)
    @servers << Control::Server.new(places, guard:, commands:, log:)
    places.address
  end

  # A connection to it.
  def connect(address)
    address.path ? UNIXSocket.new(address.path.sub(/\A@/, "\0")) : TCPSocket.new(address.host, address.port)
  end

  # All that it answers to these bytes.
  def exchange(address, bytes)
    socket = connect(address)
    socket.write(bytes)
    socket.read
  ensure
    socket&.close
  end

  def get(address, target, **fields) = call(address, "GET", target, **fields)

  def post(address, target, **fields) = call(address, "POST", target, **fields)

  def call(address, verb, target, **fields)
    exchange(address, "#{verb} #{target} HTTP/1.1\r\n#{fields.map { |name, value| "#{name}: #{value}\r\n" }.join}\r\n")
  end

  def status(...) = get(...)[%r{\AHTTP/1\.1 (\d+) }, 1].to_i

  def body(...) = get(...).split("\r\n\r\n", 2).last

  # Runs `abacactl` here; returns its status, and what it wrote to both.
  def abacactl(*words, env: {})
    out = StringIO.new
    err = StringIO.new
    status = Control::CLI.run(words, out:, err:, env:)
    [status, out.string, err.string]
  end
end
