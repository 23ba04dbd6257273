# frozen_string_literal: true

require_relative "process_case"

# For tests of a master and its workers. A worker is found in the log, and gone when its process is.
module ClusterCase
  include ProcessCase

  # Answers with its process.
  APP = <<~'RUBY'
    run ->(_env) { [200, { "content-type" => "text/plain" }, ["#{Process.pid}\n"]] }
  RUBY
  GET = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
  CLOSE = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
  BOOTED = /Worker (\d+) \(PID: (\d+)\) booted in \d+\.\d+s, phase: (\d+)/

  # A worker that has booted.
  Booted = Struct.new(:index, :pid, :phase)

  def teardown
    workers = @commands.flat_map { |command| booted(command).map(&:pid) }
    super
    left = workers.dup
    assert eventually { (left = left.select { |pid| alive?(pid) }).empty? }, "workers are left: #{left}"
  ensure
    left&.each { |pid| Process.kill(:KILL, pid) if alive?(pid) }
  end

  # Runs a master with workers; returns its Command when they have booted.
  def run_cluster(rackup = APP, *arguments, config: "workers 2", count: 2, **options)
    run_abaca(rackup, *arguments, config: config, **options).tap { |command| wait_for_workers(command, count) }
  end

  # Those that have booted so far, in their order.
  def booted(command)
    command.text.scan(BOOTED).map { |words| Booted.new(*words.map(&:to_i)) }
  end

  # Waits until so many have booted; returns them.
  def wait_for_workers(command, count)
    all = nil
    return all if eventually { (all = booted(command)).size >= count }

    raise "#{all.size} workers, not #{count}:\n#{command.text}"
  end

  # Those that have booted and run.
  def running(command) = booted(command).select { |worker| alive?(worker.pid) }

  # Whether there is such a process; one that has ended and was not reaped is gone.
  def alive?(pid)
    File.read("/proc/#{pid}/stat")[/\) (\w)/, 1] != "Z"
  rescue SystemCallError
    false
  end

  # Waits until a process has ended; returns whether it did.
  def gone?(pid) = eventually { !alive?(pid) }

  # The process of the watch, nil if there is none. It has its name once it has let go of what others have open, which
  # takes a while where no folder lists that.
  def watch_of(command)
    found = nil
    eventually { found = named("abaca: watch: #{command.pid} [") }
    found
  end

  # The process whose command line begins so.
  def named(title)
    Dir.children("/proc").grep(/\A\d+\z/).map(&:to_i).find do |pid|
      File.read("/proc/#{pid}/cmdline").start_with?(title)
    rescue SystemCallError
      false # it has ended
    end
  end

  # What a new connection gets.
  def ask(command) = connect(command.port).call(CLOSE).body

  # Ends the command with TERM; returns its exit status.
  def finish(command)
    command.signal(:TERM)
    command.wait.exitstatus
  end

  # Clients on threads that ask until they are stopped, half of them with a new connection for each request. As clients
  # do, they ask again when a kept connection was closed before an answer began.
  class Load
    PER_CONNECTION = 20

    # @return [Array<String>] what failed: an answer that did not come, or another one
    attr_reader :failures

    # @param port [Integer]
    # @param clients [Integer]
    # @param kind [Class] of a client: Wire::Client, or TLSClient
    def initialize(port, clients: 4, kind: Wire::Client)
      @port = port
      @kind = kind
      @failures = Queue.new
      @answers = Queue.new
      @stopped = false
      @threads = Array.new(clients) { |i| Thread.new { serve(i.even? ? PER_CONNECTION : 1) } }
    end

    # @return [Integer] so far
    def answers = @answers.size

    # Waits until so many more have come; returns whether they did.
    def more?(count = 100)
      wanted = answers + count
      Waits.eventually { answers >= wanted }
    end

    # @return [Array<String>] the failures
    def stop
      @stopped = true
      @threads.each(&:join)
      Array.new(@failures.size) { @failures.pop }
    end

    private

    def serve(requests)
      connection(requests) until @stopped
    end

    def connection(requests)
      client = @kind.new(@port)
      requests.times do |i|
        break if @stopped || !request(client, i, requests)
      end
    rescue SystemCallError, EOFError, Wire::Late, Wire::Malformed => e
      @failures << "#{e.class}: #{e.message}"
    ensure
      client&.close
    end

    # Returns whether another may follow on this connection.
    def request(client, number, of)
      response = client.call(number == of - 1 ? CLOSE : GET)
      response.status == 200 ? @answers << true : @failures << "status #{response.status}"
      !response.close?
    rescue EOFError, Errno::EPIPE, Errno::ECONNRESET
      raise unless number.positive? && client.parser.pending.zero?

      false
    end
  end
end
