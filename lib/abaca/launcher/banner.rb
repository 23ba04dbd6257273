# frozen_string_literal: true

module Abaca
  class Launcher
    # What a process says of itself when it serves: its title, and the first lines of the log.
    class Banner
      # @param config [Config]
      # @param listeners [Listeners] that are open
      # @param control [String, nil] where its control server listens
      # @param stand_in [Boolean] whether the process serves while another one restarts
      def initialize(config, listeners, control: nil, stand_in: false)
        @config = config
        @listeners = listeners
        @control = control
        @stand_in = stand_in
      end

      # Sets the title and writes the lines.
      #
      # @param log [Log]
      def show(log)
        Process.setproctitle(title)
        lines.each { |line| log.info(line) }
      end

      private

      def lines = @stand_in ? ["* A stand-in serves during the restart, PID: #{Process.pid}"] : all_lines

      def title
        tag = @config[:tag] || File.basename(Dir.pwd)
        "abaca #{VERSION} (#{@listeners.urls.join(',')})#{" [#{tag}]" unless tag.empty?}#{' stand-in' if @stand_in}"
      end

      def all_lines
        ["Abaca starting in #{clustered? ? 'cluster' : 'single'} mode...", "* Abaca version: #{VERSION}",
         "* Ruby version: #{RUBY_DESCRIPTION}", *fibers, *threads, *scheduler,
         "*  Environment: #{@config[:environment]}", *processes,
         *@listeners.lines, *control, "Use Ctrl-C to stop"]
      end

      def clustered? = @config[:workers].positive?

      def processes
        return ["*          PID: #{Process.pid}"] unless clustered?

        ["*   Master PID: #{Process.pid}", "*      Workers: #{@config[:workers]}"]
      end

      def control = ("* Starting control server on #{@control.sub(/\Atcp:/, 'http:')}" if @control)

      def fibers
        return if Config::Modes.threads_lead?(@config)

        idle = " (`threads' has no effect on fibers: docs/modes.md)" if @config.idle_threads?
        "*   Max fibers: #{@config[:max_fibers]}#{idle}"
      end

      def threads = ("*      Threads: #{@config[:threads].join(' to ')}" if Config::Modes.threads?(@config))

      def scheduler
        name = @config[:fiber_scheduler].to_s
        "*    Scheduler: #{name}" unless name == Config::DEFAULTS[:fiber_scheduler]
      end
    end
  end
end
