# frozen_string_literal: true

require "io/wait"
require "net/http"
require "rbconfig"
require "tmpdir"

# For tests of the command as a process of its own.
module Command
  ROOT = File.expand_path("../..", __dir__)
  SECONDS = 60
  Ended = Struct.new(:status, :out, :err)

  # A server process: what it printed so far, its address, its end.
  class Running
    attr_reader :pid, :output

    # words: the process's program and arguments; inherits: descriptors by number. Both of its outputs come in one
    # stream.
    def initialize(words, dir:, env: {}, inherits: {})
      reader, writer = IO.pipe
      redirections = { chdir: dir, in: File::NULL, out: writer, err: writer, **inherits }
      @pid = Process.spawn(Command.environment(env), *words, redirections)
      writer.close
      @reader = reader
      @output = +""
    end

    # Reads until the output matches behind its first `after` characters; returns the MatchData, or raises with what
    # there was.
    def wait_for(pattern, within: SECONDS, after: 0)
      limit = now + within
      until (found = pattern.match(@output, after))
        left = limit - now
        raise "no #{pattern.inspect} within #{within} s in:\n#{@output}" unless left.positive? && more(left)
      end
      found
    end

    def port
      @port ||= wait_for(/Use Ctrl-C/) && Integer(@output[/Listening on \w+:\S*:(\d+)$/, 1])
    end

    def get(path, **headers)
      http = Net::HTTP.new("127.0.0.1", port)
      http.read_timeout = SECONDS
      http.start { http.get(path, headers.transform_keys(&:to_s)) }
    end

    # Reads until the process ends.
    def read_on
      nil while more(nil)
    rescue IOError
      nil # destroyed
    end

    def signal(name) = Process.kill(name, @pid)

    # Waits for the end; returns the Process::Status.
    def wait(within: SECONDS)
      return @status if @status

      limit = now + within
      sleep 0.01 while !(found = Process.wait2(@pid, Process::WNOHANG)) && now < limit
      raise "the process did not end within #{within} s; output:\n#{@output}" unless found

      nil while more(0.1)
      @status = found.last
    end

    # For teardown: whatever state it is in, it ends.
    def destroy
      unless @status
        Process.kill(:KILL, @pid)
        Process.wait(@pid)
      end
    rescue Errno::ESRCH, Errno::ECHILD
      nil
    ensure
      @reader.close
    end

    private

    def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    def more(seconds)
      return false unless @reader.wait_readable(seconds)

      @output << @reader.read_nonblock(65_536)
    rescue EOFError
      false
    end
  end

  def self.environment(env)
    { "RACK_ENV" => nil, "RAILS_ENV" => nil, "APP_ENV" => nil, "WEB_CONCURRENCY" => nil,
      "PUMA_MIN_THREADS" => nil, "PUMA_MAX_THREADS" => nil, "MIN_THREADS" => nil, "MAX_THREADS" => nil,
      "PUMA_PERSISTENT_TIMEOUT" => nil, "SCRIPT_NAME" => nil }.merge(env)
  end

  # The interpreter with this run's load path, so that a sanitized build is tested where one is meant.
  def self.ruby
    paths = $LOAD_PATH.grep(%r{\A#{ROOT}/}).reject { |path| path == "#{ROOT}/test" }
    [RbConfig.ruby, "-w", *paths.flat_map { |path| ["-I", path] }]
  end

  def self.words(argv, executable = "abaca") = [*ruby, "#{ROOT}/exe/#{executable}", *argv]

  def setup
    super
    @dir = File.realpath(Dir.mktmpdir("abaca"))
    @processes = []
  end

  def teardown
    @processes.each(&:destroy)
    FileUtils.remove_entry(@dir)
    super
  end

  # Writes a file below the test's folder; returns its path.
  def file(name, text)
    path = File.join(@dir, name)
    FileUtils.mkdir_p(File.dirname(path))
    File.write(path, text)
    path
  end

  # Starts a server; it is ended after the test.
  def start(*argv, env: {}, dir: @dir, inherits: {}, executable: "abaca")
    Running.new(Command.words(argv, executable), env:, dir:, inherits:).tap { |running| @processes << running }
  end

  # Runs the command to its end.
  def run_command(*argv, env: {}, executable: "abaca")
    out_reader, out = IO.pipe
    err_reader, err = IO.pipe
    words = Command.words(argv, executable)
    pid = Process.spawn(Command.environment(env), *words, chdir: @dir, in: File::NULL, out:, err:)
    [out, err].each(&:close)
    texts = [out_reader, err_reader].map { |reader| Thread.new { reader.read } }.map(&:value)
    Ended.new(Process.wait2(pid).last.exitstatus, *texts.map { |text| own_lines(text) })
  ensure
    [out_reader, err_reader].each(&:close)
  end

  # Warnings of gems and of Ruby itself under -w are not the command's words.
  def own_lines(text) = text.lines.grep_v(%r{/gems/|/usr/lib/ruby/|<main>: warning: timer_create failed}).join

  # Checks for one clear line on standard error and status 1; returns the line.
  def assert_fails(*argv, env: {})
    ended = run_command(*argv, env:)
    assert_equal 1, ended.status, "status; standard error: #{ended.err}"
    assert_equal 1, ended.err.lines.size, "lines on standard error: #{ended.err}"
    assert_match(/\Aabaca: /, ended.err)
    ended.err.chomp
  end
end
