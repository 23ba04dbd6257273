# frozen_string_literal: true

require "fileutils"
require "rbconfig"
require "tmpdir"
require_relative "../../cli/command"

module Storms
  # A server in a folder of its own: whatever still runs there in the end belongs to it. It listens on a TCP port and on
  # a unix socket, has a pidfile, and writes into a log.
  class Cluster
    WORKERS = 2
    SECONDS = 120 # that anything may take
    FILES = %w[socket pid control state].freeze
    # Whatever is asked, it answers with its process.
    APP = <<~RUBY
      run(lambda do |env|
        sleep 0.005 if rand(20).zero?
        whole = env["REQUEST_METHOD"] != "POST" || env["rack.input"].read == "12345"
        text = Process.pid.to_s
        pieces = text.each_char.lazy.map { |piece| sleep(0.001) && piece }
        [whole ? 200 : 400, { "content-type" => "text/plain" }, env["PATH_INFO"] == "/pieces" ? pieces : [text]]
      end)
    RUBY
    SETTINGS = <<~RUBY
      $stdout.puts "settings"
      $stdout.flush
      bind "unix://socket"
      pidfile "pid"
      stdout_redirect "log", "log", true
    RUBY
    BOOTED = /\(PID: (\d+)\) booted in /

    class << self
      # @return [Hash{String => String}] what the processes of all servers have in their environment
      attr_writer :environment

      # Bundler would call a signal an error in its Gemfile.
      def environment = @environment || { "RUBYOPT" => nil }
    end

    # @return [Integer] the process, of the master if there is one
    attr_reader :pid

    # Yields a server that has been started, and removes all of it in the end.
    def self.open(*arguments, **options)
      Dir.mktmpdir("abaca-storm") do |folder|
        cluster = new(File.realpath(folder), *arguments, **options)
        yield cluster
      ensure
        cluster&.destroy
      end
    end

    # @param folder [String]
    # @param settings [String] lines of a configuration file
    # @param workers [Integer]
    # @param terms [String] of the TCP listener
    # @param app [String]
    # @param before [#call, nil] gets the folder before the server starts
    def initialize(folder, settings = "", workers: WORKERS, terms: "", app: APP, before: nil)
      @folder = folder
      before&.call(folder)
      @workers = workers
      File.write(path("config.ru"), app)
      bind = "bind 'tcp://127.0.0.1:0#{terms}'"
      File.write(path("settings.rb"), "#{bind}\n#{SETTINGS}workers #{workers}\n#{settings}")
      start
    end

    # Starts it, once more after its end.
    #
    # @param words [Array<String>] the command
    def start(words = Command.words(["-C", "settings.rb"]))
      File.write(path("log"), "")
      @status = nil
      @port = @secure_port = nil
      @pid = Process.spawn(Command.environment(Cluster.environment), *words, chdir: @folder, in: File::NULL,
                                                                             %i[out err] => [path("log"), "a"])
    end

    # @return [String] a file of its folder
    def path(name) = File.join(@folder, name)

    # @return [String] its log so far
    def text = File.binread(path("log"))

    # Waits until all serve.
    #
    # @return [Integer] the TCP port
    def port
      @port ||= begin
        Storms.wait_for("the boot") { settled? && text.match?(/Use Ctrl-C/) }
        Integer(text[%r{(?:Listening on|Inherited) (?:http|tcp)://\S*:(\d+)$}, 1])
      end
    end

    # @return [Integer] the TCP port of the listener with TLS, when all serve
    def secure_port
      port
      @secure_port ||= Integer(text[%r{Listening on (?:https|ssl)://\S*:(\d+)$}, 1])
    end

    # @return [Array<Integer>] the processes that run in its folder
    def processes
      Dir.glob("/proc/[0-9]*").filter_map do |entry|
        Integer(File.basename(entry)) if File.readlink("#{entry}/cwd") == @folder
      rescue SystemCallError
        nil # it has ended, or is somebody else's
      end
    end

    # @return [Array<Integer>] those that belong to the server, without the one that answers for it
    def servers
      processes.reject do |pid|
        File.read("/proc/#{pid}/cmdline").start_with?("abaca: watch: ")
      rescue SystemCallError
        false # it has ended meanwhile
      end
    end

    # @return [Array<Integer>] the workers that have booted and run
    def workers = text.scan(BOOTED).flatten.map(&:to_i) & processes

    # @return [Array<Integer>] those that have booted so far, in this order
    def booted = text.scan(BOOTED).flatten.map(&:to_i)

    # @return [Boolean] whether there are as many workers as there shall be, all of them serve, and nothing else runs
    def settled?
      all = servers
      all.size == @workers + 1 && (all - [@pid] - booted).empty?
    end

    # Leads back to as many workers as at the start, by signals.
    def level
      Storms.wait_for("as many workers as at the start") do
        next true if settled?

        extra = servers.size - @workers - 1
        signal(extra.positive? ? :TTOU : :TTIN) unless extra.zero?
        sleep 0.5
        false
      end
    end

    # Waits until all workers are others than these.
    #
    # @param before [Array<Integer>]
    def renewed(before)
      Storms.wait_for("the restart") { ended? || (settled? && !processes.intersect?(before)) }
      raise Failed, "the master has ended: #{last_lines}" if ended?
    end

    # @param name [Symbol, String]
    def signal(name, pid = @pid)
      Process.kill(name, pid)
      true
    rescue Errno::ESRCH
      false
    end

    # @return [Process::Status, nil] once it has ended
    def ended?
      return @status if @status

      @status = Process.wait2(@pid, Process::WNOHANG)&.last
    end

    # Ends it with TERM.
    #
    # @return [Array<String>] what is not as it shall be after the end
    def finish
      signal(:TERM)
      Storms.wait_for("the end") { ended? }
      wrong = leftovers
      wrong << "status #{@status}, not 0: #{last_lines}" unless @status.exitstatus&.zero?
      wrong
    end

    # Waits until no process is left, as long as it may take.
    #
    # @return [Array<String>] processes, and files if the server could remove them
    def leftovers(files: true)
      Storms.wait_for("the last process") { processes.empty? }
      files ? FILES.select { |name| File.exist?(path(name)) }.map { |name| "the file #{name} is left" } : []
    rescue Failed
      ["processes are left: #{processes.join(", ")}"]
    end

    # @return [String] of the log
    def last_lines = text.lines.last(5).join

    # Whatever state it is in, nothing of it stays.
    def destroy
      ended? || (signal(:KILL) && Process.wait(@pid))
      (1..).each do
        left = processes.each { |pid| signal(:KILL, pid) }
        break if left.empty?

        sleep 0.01
      end
    end
  end
end
