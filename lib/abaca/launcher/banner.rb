# frozen_string_literal: true

module Abaca
  class Launcher
    # What a process says of itself: the first lines of the log when it starts, others when it listens, and its title.
    class Banner
      # @param config [Config]
      # @param stand_in [Boolean] whether the process serves while another one restarts
      def initialize(config, stand_in: false)
        @config = config
        @stand_in = stand_in
      end

      # Sets the title that a process has while the app loads.
      def entitle = Title.set(title("booting"))

      # Says what starts, before the app is loaded.
      #
      # @param log [Log]
      def show_head(log)
        head.each { |line| log.info(line) } unless @stand_in
      end

      # Sets the title, and says where the process listens.
      #
      # @param log [Log]
      # @param listeners [Listeners] that are open
      # @param control [String, nil] where its control server listens
      # @param dashboard [String, nil] a link for a browser
      def show(log, listeners, control: nil, dashboard: nil)
        Title.set(title(listeners.urls.join(",")))
        return log.info("* A stand-in serves during the restart, PID: #{Process.pid}") if @stand_in

        lines = listeners.lines
        lines += ["* Starting control server on #{control.sub(/\Atcp:/, 'http:')}"] if control
        lines += ["* Dashboard: #{dashboard}"] if dashboard
        [*lines, "Use Ctrl-C to stop"].each { |line| log.info(line) }
      end

      private

      def title(state) = "abaca #{VERSION} (#{state})#{Title.tag(@config)}#{' stand-in' if @stand_in}"

      def head
        ["Abaca starting in #{clustered? ? 'cluster' : 'single'} mode...", "* Abaca version: #{VERSION}",
         "* Ruby version: #{RUBY_DESCRIPTION}", *platform, *fibers, *threads, *scheduler,
         "*  Environment: #{@config[:environment]}", *processes]
      end

      def clustered? = @config[:workers].positive?

      def processes
        return ["*          PID: #{Process.pid}"] unless clustered?

        restarts = { hot: true, phased: !@config[:preload_app], refork: @config.reforks? }
        ["*   Master PID: #{Process.pid}", "*      Workers: #{@config[:workers]}",
         "*     Restarts: #{restarts.map { |name, possible| "#{mark(possible)} #{name}" }.join(' ')}"]
      end

      # Nothing where nothing is lacking.
      def platform = Platform.here.summary&.then { |text| "*     Platform: #{text}" }

      def mark(possible) = possible ? "(\u2714)" : "(\u2716)"

      def fibers
        "*   Max fibers: #{@config[:max_fibers]}" unless Config::Modes.threads_lead?(@config)
      end

      def threads = ("*      Threads: #{@config[:threads].join(' to ')}" if Config::Modes.threads?(@config))

      def scheduler
        name = @config[:fiber_scheduler].to_s
        "*    Scheduler: #{name}" unless name == Config::DEFAULTS[:fiber_scheduler]
      end
    end
  end
end
