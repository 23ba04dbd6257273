# frozen_string_literal: true

require_relative "control"
require_relative "launcher/banner"
require_relative "launcher/listeners"
require_relative "launcher/output"
require_relative "launcher/overdue"
require_relative "launcher/pidfile"
require_relative "launcher/signals"
require_relative "launcher/single"

module Abaca
  # What the command does with a configuration. This class does what a process does once, whatever serves in it:
  # directory, output, pidfile, title, banner, signals, and the end in order. What serves is a runner (Single). It
  # belongs on the main thread.
  class Launcher
    class << self
      # @return [Launcher, nil] that serves in this process
      attr_accessor :current
    end

    # @return [Config]
    attr_reader :config

    # @param config [Config]
    # @param app [#call, nil] in place of the configuration's app or rackup file
    # @param out [IO] takes banner and access log
    # @param err [IO] takes warnings and errors
    def initialize(config, app: nil, out: $stdout, err: $stderr)
      @config = config
      check_workers
      @app = app || config[:app]
      @output = Output.new(config, out, err)
      @stops = 0
      @halted = false
      @overdue = Overdue.new { report_overdue }
    end

    # @return [Server, nil] once the app is loaded
    def server = @runner&.server

    # Serves until stop, halt or a signal.
    #
    # @return [nil]
    # @raise [ConfigError] if the app does not load, or listening fails
    def run
      prepare_process
      @runner = Single.new(@config, app: @app, log: @log)
      end_runner if @halted || @stops.positive?
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

      end_runner
    end

    # Stops at once. A trap handler may call it.
    def halt
      @halted = true
      end_runner
    end

    # Writes into the log what every request waits for, without stopping anything. A trap handler may call it.
    def dump
      @log.dump(server.dump) if server
    rescue StandardError => e
      @log.error("the dump failed: #{e.message} (#{e.class})")
    end

    # @return [Hash{Symbol => Object}] figures in Puma's shape, and Abaca's own (docs/control.md). Any thread may ask,
    #   while the server serves
    def stats = @runner.stats

    # Reopens the files of stdout_redirect, after they were moved. A trap handler may call it.
    #
    # @return [Boolean] false when the output is not redirected
    def reopen = @output.reopen

    private

    # Single is the only runner.
    def check_workers
      return if @config[:workers] < 2

      raise ConfigError, "workers #{@config[:workers]}: one process only in this version; use `workers 0' or drop it"
    end

    def prepare_process
      directory = @config[:directory]
      Dir.chdir(directory) if directory
      @log = @output.open
      ENV["RACK_ENV"] = @config[:environment]
      @config.warnings.each { |warning| @log.warn(warning) }
      Config::Report.new(@config).lines.each { |line| @log.info(line) } if @config[:log_config]
    rescue SystemCallError => e
      raise ConfigError, e.message
    end

    def serve
      @listeners = Listeners.new(@config, @log)
      @pidfile = Pidfile.new(@config[:pidfile])
      @control = Control.new(self, @config, @log)
      signals = Signals.new(self, @log)
      @runner.listen(@listeners.open)
      @pidfile.write
      signals.trap
      Launcher.current = self
      @control.open
      Banner.new(@config, @listeners.urls, control: @control.url).show(@log)
      @config[:after_booted].each(&:call)
      @runner.run
      @config[:after_stopped].each(&:call)
      @log.info("- Goodbye!")
      nil
    ensure
      # A signal may come between any two of these: it finds our handlers, and nothing they do outlasts this method.
      @control&.close
      Launcher.current = nil
      @runner.close
      @listeners&.close
      @pidfile&.remove
      signals&.restore
      @overdue.cancel
    end

    def end_runner
      return unless @runner

      @log.info(@halted ? "* Stopping immediately!" : "- Gracefully stopping, waiting for requests to finish")
      @overdue.give(@runner.patience(at_once: @halted))
      @runner.stop(at_once: @halted)
    end

    def report_overdue
      @log.error("the server does not end; the process ends without it")
      dump
      @log.flush
      @control&.remove_files
      @pidfile&.remove
    end
  end
end
