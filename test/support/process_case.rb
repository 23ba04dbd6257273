# frozen_string_literal: true

require "etc"
require "fileutils"
require "rbconfig"
require "tmpdir"
require_relative "test_build"
require_relative "wire"

# For tests that run the command as a separate process. Every process has a deadline, and is always reaped.
module ProcessCase
  COMMAND = File.expand_path("../../exe/abaca", __dir__)
  DEADLINE = Deadline::SECONDS / 3

  # A running command: its process and its output so far.
  class Command
    attr_reader :pid, :status

    # pid: of the process; output: path of the file that it writes to.
    def initialize(pid, output)
      @pid = pid
      @output = output
      @status = nil
    end

    # Its output so far.
    def text
      File.binread(@output)
    end

    # Waits until its output matches; returns the MatchData. Raises when it does not come.
    def wait_for(pattern, within: DEADLINE)
      deadline = now + within
      loop do
        last = ended? || now > deadline # checked before reading: later output counts
        match = pattern.match(text) and return match
        raise "no #{pattern.inspect} within #{within} s in:\n#{text}" if last

        sleep 0.01
      end
    end

    # The port of the first TCP address that it says it listens at.
    def port
      @port ||= Integer(wait_for(%r{Listening on https?://[^\s]*:(\d+)})[1])
    end

    # What it says without the head of its banner.
    def said = text.lines.grep_v(/\A(?:Abaca starting|\* )/).join

    def signal(name)
      Process.kill(name, pid)
    end

    # True once the process has ended; its status is then in #status.
    def ended?
      return true if @status

      _, @status = Process.wait2(pid, Process::WNOHANG)
      !@status.nil?
    end

    # Waits for the end; returns the Process::Status. Raises when it does not come.
    def wait(within: DEADLINE)
      deadline = now + within
      until ended?
        raise "did not end within #{within} s:\n#{text}" if now > deadline

        sleep 0.01
      end
      status
    end

    # Kills it, if it still runs.
    def dispose
      return if ended?

      Process.kill(:KILL, pid)
      _, @status = Process.wait2(pid)
    end

    # True if Ruby or a sanitizer has reported a crash of the process or of a child.
    def crashed?
      text.match?(TestBuild::REPORT)
    end

    # Seconds of processor time that it has used.
    def processor_time
      fields = File.read("/proc/#{pid}/stat").rpartition(")").last.split
      (Integer(fields[11]) + Integer(fields[12])) / Float(Etc.sysconf(Etc::SC_CLK_TCK))
    end

    # Bytes of memory in use.
    def resident
      Integer(File.read("/proc/#{pid}/statm").split[1]) * Etc.sysconf(Etc::SC_PAGESIZE)
    end

    # How many descriptors it has open.
    def descriptors
      Dir.children("/proc/#{pid}/fd").size
    end

    # What they are open on, paths of files among it.
    def open
      Dir["/proc/#{pid}/fd/*"].filter_map do |link|
        File.readlink(link)
      rescue Errno::ENOENT
        nil # closed since
      end
    end

    private

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end

  def setup
    super
    @commands = []
    @clients = []
    @directory = Dir.mktmpdir("abaca")
  end

  def teardown
    @clients.each(&:close)
    @commands.each(&:dispose)
    crashes = @commands.select(&:crashed?).map { |command| command.text[0, 8_000] }
    assert_empty crashes
  ensure
    FileUtils.rm_rf(@directory)
    super
  end

  # Runs the command on the text of a config.ru, on a free port, and returns it as Command.
  #
  # arguments: more words of its command line; config: text of a configuration file; options: of
  # Process.spawn, for instance rlimit_nofile.
  def run_abaca(rackup, *arguments, config: nil, **options)
    words = ["-b", "tcp://127.0.0.1:0"]
    if config
      File.write(File.join(@directory, "settings.rb"), config)
      words.push("-C", "settings.rb")
    end
    File.write(File.join(@directory, "config.ru"), rackup)
    start_abaca(*words, *arguments, "config.ru", **options)
  end

  # Runs the command with these arguments only; before: words of a command that executes it.
  def start_abaca(*words, env: {}, before: [], **options)
    # A file, so that no thread has to read while the process writes.
    output = File.join(@directory, "output.#{@commands.size}")
    File.write(output, "")
    includes = $LOAD_PATH.map { |path| "-I#{path}" }
    pid = Process.spawn(env, *before, RbConfig.ruby, *includes, COMMAND, *words,
                        { chdir: @directory, in: File::NULL, %i[out err] => [output, "a"] }.merge(options))
    Command.new(pid, output).tap { |command| @commands << command }
  end

  # A new connection, closed at the end of the test.
  def connect(port, **options)
    Wire::Client.new(port, **options).tap { |client| @clients << client }
  end
end
