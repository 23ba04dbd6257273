# frozen_string_literal: true

require_relative "control"
require_relative "launcher/actions"
require_relative "launcher/banner"
require_relative "launcher/certificates"
require_relative "launcher/endings"
require_relative "launcher/hot_restart"
require_relative "launcher/listeners"
require_relative "launcher/only_slot"
require_relative "launcher/output"
require_relative "launcher/overdue"
require_relative "launcher/paths"
require_relative "launcher/pidfile"
require_relative "launcher/plugins"
require_relative "launcher/restart_file"
require_relative "launcher/revision"
require_relative "launcher/signals"
require_relative "launcher/single"
require_relative "launcher/systemd"
require_relative "launcher/title"
require_relative "launcher/watched"

module Abaca
  # What the command does with a configuration. This class does what a process does once, whatever serves in it:
  # directory, output, pidfile, title, banner, signals, and the end in order. What serves is a runner: this process
  # (Single), or others that it looks after (Cluster). It belongs on the main thread.
  class Launcher
    # Most processes are a server by themselves.
    autoload :Cluster, File.expand_path("launcher/cluster", __dir__)
    include Actions
    include Certificates
    include Endings
    include Watched

    class << self
      # @return [Launcher, nil] that serves in this process
      attr_accessor :current
    end

    # @return [Config]
    attr_reader :config
    # @return [Plugins] those that run in this process
    attr_reader :plugins
    # @return [Signals] its handlers
    attr_reader :signals

    # @param config [Config]
    # @param app [#call, nil] in place of the configuration's app or rackup file
    # @param argv [Array<String>, nil] the arguments of the command; nil: something else has started the launcher, and
    #   is started again by a restart
    # @param out [IO] takes banner and access log
    # @param err [IO] takes warnings and errors
    # @param signals [Signals, nil] those that were caught before there was a configuration; nil: none were
    def initialize(config, app: nil, argv: nil, out: $stdout, err: $stderr, signals: nil)
      @signals = signals || Signals.new
      @succession = Succession.new
      @keeper = nil
      @config = config = @succession.adapt(config)
      @app = app || config[:app]
      @argv = argv
      @origin = Origin.new(command: config[:restart_command], argv: argv || [])
      @output = Output.new(config, out, err)
      @stops = 0
      @halted = false
      @overdue = Overdue.new { report_overdue }
    end

    # @return [Server, nil] once the app is loaded; a master has none
    def server = @runner&.server

    # @return [Page, nil] which this process shares with those that serve
    def page = @slots&.page

    # @return [Array<String, nil>] of Succession::FILES: their paths
    def files = [@pidfile.path, @control.state_path]

    # @return [Array<String>] where it listens
    def urls = @listeners.urls

    # Serves until stop, halt or a signal.
    #
    # @return [nil]
    # @raise [ConfigError] if the app does not load, or listening fails
    def run
      name = $PROGRAM_NAME
      prepare_process
      @overdue.start
      watch_boot
      @banner.show_head(@log)
      begin_control
      present
      @signals.ending { end_boot }
      @runner = make_runner
      end_runner if ending?
      serve
    rescue ConfigError => e
      @output.failed(e)
      raise
    ensure
      end_control
      @overdue.cancel
      @log&.close
      $PROGRAM_NAME = name unless $PROGRAM_NAME == name
    end

    # Restarts the program in this process, with what it listens on; docs/signals.md has the stages. A call before the
    # server serves applies to it; a stand-in is not restarted. A trap handler may call it.
    #
    # @return [Symbol, nil] :restarting if a restart is under way
    def restart
      under_way = restarting?
      @restart_wanted = true
      @hot_restart&.begin
      :restarting if under_way
    end

    # @param pid [Integer]
    # @return [Boolean] whether it is the stand-in of a restart
    def stood_in?(pid) = [@hot_restart&.pid, @succession.pid].include?(pid)

    # Stops gracefully, while another process continues with what this one listens on.
    def hand_over
      @log.info(@runner.parting)
      @overdue.give(@runner.patience(at_once: false))
      @runner.hand_over
    end

    # Writes into the log what every request waits for, without stopping anything; workers do so by themselves. A trap
    # handler may call it.
    #
    # @return [Object, nil] nil if there is nothing that serves
    def dump
      @runner&.dump
    rescue StandardError => e
      @log.error("the dump failed: #{e.message} (#{e.class})")
    end

    # @return [Hash{Symbol => Object}] figures in Puma's shape, and Abaca's own (docs/control.md). Any thread may ask,
    #   while the app loads or the server serves
    def stats = with_certificates(@runner ? @runner.stats : @slots.stats(@config))

    # Reopens the files of stdout_redirect, after they were moved. A trap handler may call it.
    #
    # @return [Boolean] false when the output is not redirected
    def reopen = @output.reopen.tap { |reopened| @runner.reopen if reopened && clustered? }

    # Replaces workers one after the other, by such with new code. A trap handler may call it.
    #
    # @return [Boolean, Symbol] false if there are none, or the app is preloaded; :restarting during a hot restart,
    #   which brings new code as well
    def phased_restart
      return restart if restarting?
      return false unless @runner&.phased_restart

      @systemd.reloading
      true
    end

    # A phased restart, or a hot one where that would not load new code. A trap handler may call it.
    def renew
      return if phased_restart

      @log.info("* phased-restart called but not available, restarting normally.")
      restart
    end

    # Replaces all workers but the first by such that are forked from it (docs/cluster.md). A trap handler may call it.
    #
    # @return [Boolean, Symbol] false if that is not possible; :restarting if a restart is under way
    def refork
      return :restarting if restarting?
      return true if @runner&.refork

      @log.info("* refork called but not available.")
      false
    end

    # Follows the link of the working folder, where it may lead to newer code, for workers that are forked from now on.
    #
    # @return [Boolean] false if there are none
    def reload_worker_directory = clustered? && @runner&.reload_worker_directory

    # Starts a worker more. A trap handler may call it.
    def add_worker = change_workers(:add_worker)

    # Ends a worker; one remains. A trap handler may call it.
    def remove_worker = change_workers(:remove_worker)

    private

    def clustered? = @config[:workers].positive?

    # True in the old program during a hot restart, and in the new one until it serves.
    def restarting? = @hot_restart ? @hot_restart.under_way? : @succession.restarted?

    def make_runner
      return Single.new(@config, app: @app, log: @log, slot: @slots&.claim) unless clustered?

      Cluster.new(@config, app: @app, log: @log, output: @output, slots: @slots, control: @control,
                           folder: @folder || @origin.directory, in_worker: -> { forget_in_worker })
             .tap do |cluster|
        cluster.before_restart { @plugins.before_restart }
        cluster.keeper = @keeper
      end
    end

    def change_workers(how)
      return @log.warn("the number of workers cannot change: one process serves") unless clustered?

      @runner&.public_send(how)
    end

    def prepare_process
      @paths = Paths.new(@config)
      @paths.check(Paths::BEFORE_APP)
      @paths.foresee
      @folder = @paths.folder
      @paths.use(:directory, "change to #{@folder}") { Dir.chdir(@folder) } if @folder
      @log = @paths.use(:redirect) { @output.open(pid: clustered?) }
      @pidfile = Pidfile.new(@config[:pidfile], earlier: @succession.files[0])
      @plugins = Plugins.new(self, @config, @log)
      ENV["RACK_ENV"] = @config[:environment]
      @systemd = Systemd.new(@log, silent: @succession.stand_in?)
      @config.warnings.each { |warning| @log.warn(warning) }
      Config::Report.new(@config).lines.each { |line| @log.info(line) } if @config[:log_config]
      read_certificates
      @banner = Banner.new(@config, stand_in: stand_in?)
    end

    # From now on, the app and gems find the server that they run in.
    def present
      Launcher.current = self
      @plugins.present
      @banner.entitle
    end

    def make_parts
      @listeners = Listeners.new(@config, @log, @succession, @keeper)
      @restart_file = RestartFile.new(restart_file) { restart }
    end

    def serve
      @paths.check(Paths::AFTER_APP)
      make_parts
      @signals.trap(actions)
      @runner.listen(@listeners.open)
      @pidfile.write
      @control.open
      @plugins.start(@control, @listeners)
      @banner.show(@log, @listeners, control: @control.url, dashboard: @control.dashboard)
      @output.booted
      @errands = @control.errands(@slots[0], @log, server) if server && @slots
      @runner.run { |complete: true| booted(complete:) }
      become_the_next if @hot_restart&.pending?
      @overdue.give(@runner.patience(at_once: @halted)) # anew, for what follows
      @config.hooks(:after_stopped).each(&:demand)
      @plugins.stopped
      @log.info("- Goodbye!")
      nil
    ensure
      close if Process.pid == @pid
    end

    # Not for a forked child, which unwinds #serve if a signal ends it before it runs code of its own. A signal may come
    # between any two of these: it finds our handlers, and nothing they do outlasts this method.
    def close
      [@errands, @control, @restart_file, @systemd, @keeper, @hot_restart].each { |part| part&.close }
      Launcher.current = nil
      @runner.close
      @slots&.close
      @listeners&.close
      @pidfile.remove
      @signals.restore
    end

    # With workers, also whenever a phased restart is over: done, or given up.
    def booted(complete: true)
      @config.hooks(:after_booted).each(&:demand) if complete
      @plugins.booted
      @systemd.ready
      return if @serving

      @serving = true
      mark_begin
      succeed
      @systemd.watch { |limit| @runner.lively?(limit) ? status : nil }
      @restart_file.watch
      watch_certificates
    end

    # For systemd.
    def status
      figures = stats[:abaca]
      "#{figures[:connections]} connections, #{figures[:in_app]} requests in the app, " \
        "#{figures[:waiting]} waiting, #{figures[:requests]} so far, #{figures[:rejected].values.sum} rejected"
    end

    # systemd's watchdog is on already when a process restarts.
    def watch_boot
      return unless @succession.restarted?

      boots = Process.clock_gettime(Process::CLOCK_MONOTONIC) + @config[:restart_timeout]
      @systemd.watch { "restarting" if Process.clock_gettime(Process::CLOCK_MONOTONIC) < boots }
    end

    # A stand-in ends when its successor serves, or when there is none any more.
    def succeed
      places = @listeners.places
      # `rails server` and others have pidfiles that allow one process only.
      @hot_restart = HotRestart.new(self, @origin, @log, places, @systemd, command: !@argv.nil?) unless stand_in?
      @succession.serving(places, held: @signals.held?) { |succeeded| succeeded ? hand_over : stop }
      return @hot_restart&.cancel if ending?

      @hot_restart&.begin if @restart_wanted
    end

    def stand_in? = @succession.stand_in?

    def become_the_next
      @runner.kill
      @hot_restart.exec(@control.hand_over)
    end

    def restart_file = (ENV["RESTART_FILE"] || "tmp/restart.txt" if @config[:plugins].include?("tmp_restart"))
  end
end
