# frozen_string_literal: true

require_relative "app_loader"
require_relative "launcher/overdue"
require_relative "launcher/pidfile"
require_relative "launcher/signals"

module Abaca
  # What the command does with a configuration: loads the app, listens, prints the banner, serves, and ends in order.
  # It belongs on the main thread.
  class Launcher
    # Seconds that the server has to end after its own deadlines: it gives fibers 5 to unwind, and a foreign scheduler
    # 10 more.
    PATIENCE = 8
    GUEST_PATIENCE = 20
    private_constant :PATIENCE, :GUEST_PATIENCE

    # @return [Config]
    attr_reader :config
    # @return [Server, nil] once the app is loaded
    attr_reader :server

    # @param config [Config]
    # @param app [#call, nil] in place of the configuration's app or rackup file
    # @param out [IO] takes banner and access log
    # @param err [IO] takes warnings and errors
    def initialize(config, app: nil, out: $stdout, err: $stderr)
      @config = config
      @app = app || config[:app]
      @out = config[:logger] || out
      @err = err
      @stops = 0
      @halted = false
      @overdue = Overdue.new { report_overdue }
    end

    # Serves until stop, halt or a signal.
    #
    # @return [nil]
    # @raise [ConfigError] if the app does not load, or listening fails
    def run
      prepare_process
      # The app comes first, so that an app that does not load never holds the port.
      app = @app || RailsBoot.with_mode(fibers? ? :fiber : :thread) { AppLoader.load(@config[:rackup]) }
      @server = Server.new(app, config: @config, log: @log, show_errors: show_errors?)
      end_server if @halted || @stops.positive?
      listen
      warn_of_fibers
      serve
    ensure
      @log&.release
    end

    # Stops gracefully; the second time, at once; the third time without waiting for anything. A call before the
    # server exists applies to it. A trap handler may call it.
    def stop
      @stops += 1
      return @overdue.now if @stops > 2
      return halt if @stops > 1

      end_server
    end

    # Stops at once. A trap handler may call it.
    def halt
      @halted = true
      end_server
    end

    # Writes into the log what every request waits for, without stopping anything. A trap handler may call it.
    def dump
      @log.dump(@server.dump) if @server
    rescue StandardError => e
      @log.error("the dump failed: #{e.message} (#{e.class})")
    end

    # Reopens the files of stdout_redirect, after they were moved. A trap handler may call it.
    #
    # @return [Boolean] false when the output is not redirected
    def reopen
      return false unless @config[:redirect]

      open_files
      true
    rescue SystemCallError => e
      @log.warn("cannot reopen the log: #{e.message}")
      true
    end

    private

    def prepare_process
      directory = @config[:directory]
      Dir.chdir(directory) if directory
      redirect if @config[:redirect]
      @log = make_log
      ENV["RACK_ENV"] = @config[:environment]
      @config.warnings.each { |warning| @log.warn(warning) }
    rescue SystemCallError => e
      raise ConfigError, e.message
    end

    def mode = @config[:mode]

    # A developer who starts the server from the command line sees errors where they occur.
    def show_errors? = @config[:show_errors].nil? ? @config.developing? : @config[:show_errors]

    # Whether any request can run beside others on its thread.
    def fibers? = !Config::Modes.threads_lead?(@config)

    # Finds only what is loaded by now.
    def warn_of_fibers
      return unless fibers?

      FiberSafety.new.findings.each { |finding| @log.warn("#{finding} (docs/fiber_safety.md)") }
    end

    def make_log
      level = if @config[:silent] then :error
              elsif @config[:debug] then :debug
              else :info
              end
      Log.new(@out, @err, level:, formatter: @config[:formatter])
    end

    def redirect
      files = @config[:redirect]
      [files[:stdout], files[:stderr]].compact.each { |path| File.write(path, "") unless files[:append] }
      open_files
    end

    def open_files
      files = @config[:redirect]
      { $stdout => files[:stdout], $stderr => files[:stderr] }.each do |io, path|
        next unless path

        io.reopen(path, "a")
        io.sync = true
      end
    end

    def listen
      @config.binds.each do |bind|
        listen_at(bind)
      rescue SystemCallError => e
        @server.close
        raise ConfigError, "cannot listen on #{bind}: #{reason(e)}"
      end
    end

    def listen_at(bind)
      if bind.unix?
        @server.add_unix_listener(bind.path, **bind.options)
      elsif bind.fd
        @server.add_listener_fd(bind.fd, **bind.options)
      else
        @server.add_tcp_listener(bind.host, bind.port, **bind.options)
      end
    end

    def reason(error)
      case error
      when Errno::EADDRINUSE then "the address is in use by another process"
      when Errno::EACCES then "permission denied"
      else error.message
      end
    end

    def serve
      @pidfile = Pidfile.new(@config[:pidfile])
      signals = Signals.new(self, @log)
      @pidfile.write
      signals.trap
      announce
      @config[:after_booted].each(&:call)
      @server.run
      @config[:after_stopped].each(&:call)
      @log.info("- Goodbye!")
      nil
    ensure
      # A signal may come between any two of these: it finds our handlers, and nothing they do outlasts this method.
      @server.close
      @pidfile&.remove
      signals&.restore
      @overdue.cancel
    end

    def end_server
      return unless @server

      @log.info(@halted ? "* Stopping immediately!" : "- Gracefully stopping, waiting for requests to finish")
      @overdue.give(seconds_left)
      @halted ? @server.halt : @server.stop
    end

    # The server's time, or nil.
    def seconds_left
      timeout = @halted ? 0 : @config[:shutdown_timeout]
      return unless timeout

      timeout += @config[:shutdown_delay] unless @halted
      timeout + (@server.native? ? PATIENCE : GUEST_PATIENCE)
    end

    def report_overdue
      @log.error("the server does not end; the process ends without it")
      dump
      @log.flush
      @pidfile&.remove
    end

    def announce
      urls = @server.urls
      tag = @config[:tag] || File.basename(Dir.pwd)
      Process.setproctitle("abaca #{VERSION} (#{urls.join(',')})#{" [#{tag}]" unless tag.empty?}")
      ["Abaca starting in single mode...", "* Abaca version: #{VERSION}", "* Ruby version: #{RUBY_DESCRIPTION}",
       *mode_lines, *scheduler_line, "*  Environment: #{@config[:environment]}",
       "*          PID: #{Process.pid}", *urls.map { |url| "* Listening on #{url}" },
       "Use Ctrl-C to stop"].each { |line| @log.info(line) }
    end

    def mode_lines
      fibers = "*   Max fibers: #{@config[:max_fibers]}"
      fibers += " (`threads' has no effect on fibers: docs/modes.md)" if @config.idle_threads?
      threads = "*      Threads: #{@config[:threads].join(' to ')}"
      [*(fibers unless Config::Modes.threads_lead?(@config)), *(threads if Config::Modes.threads?(@config))]
    end

    def scheduler_line
      @server.native? ? [] : ["*    Scheduler: #{@config[:fiber_scheduler]}"]
    end
  end
end
