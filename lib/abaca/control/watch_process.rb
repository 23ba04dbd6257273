# frozen_string_literal: true

require_relative "commands"
require_relative "looks"
require_relative "questions"
require_relative "server"

module Abaca
  class Control
    # What runs in the process of the watch: the control server. It comes from the launcher, and keeps nothing of it but
    # the page and the sockets that it needs.
    class WatchProcess
      # They are for the launcher, which ends the watch.
      IGNORED = %w[INT TERM QUIT HUP USR1 USR2 TTIN TTOU URG PWR INFO].freeze & Signal.list.keys
      # Seconds between two looks at the launcher, in case a child of it holds the pair.
      LOOK = 5
      private_constant :IGNORED, :LOOK

      # @param fronts [Array<Front>] where the control server listens
      # @param port [Places, nil] the sockets of `metrics_port`
      # @param config [Config]
      # @param slots [Launcher::Cluster::Slots, Launcher::OnlySlot] the page
      # @param enrolment [Enrolment] to which processes that serve come
      # @param changes [Hash{Symbol => Object}] settings that somebody has changed
      # @param board [Front, nil] the one that browsers use, if it has a port
      def initialize(fronts, port:, config:, slots:, enrolment:, changes:, board:) # rubocop:disable Metrics/ParameterLists -- what a process is made of
        @fronts = fronts
        @port = port
        @board = board
        @config = config
        @slots = slots
        @enrolment = enrolment
        @changes = changes
        @launcher = Process.pid
        @began = beginning_of_launcher
      end

      # Serves until the launcher says that this is the end, or has ended.
      #
      # @param socket [UNIXSocket] to the launcher
      def run(socket)
        IGNORED.each { |name| Signal.trap(name, "IGNORE") }
        let_go([socket, @enrolment, *@fronts.flat_map { |front| front.places.sockets }, *@port&.sockets].map(&:fileno))
        Process.setproctitle(title)
        serve(socket)
      end

      private

      def title
        tag = @config[:tag] || File.basename(Dir.pwd)
        "abaca: watch: #{@launcher}#{" [#{tag}]" unless tag.empty?}"
      end

      def serve(socket)
        ends = Thread::Queue.new # of what Server#close is told; nil: nobody waits for it
        launcher = Questions.new(socket) { |told| ends << told }
        metrics = Metrics.new(@config, @slots, launcher:, pid: @launcher)
        log = RemoteLog.new(launcher)
        servers = control_servers(launcher, metrics, log)
        servers << MetricsServer.new(@port, metrics:, log:) if @port
        watch_launcher(ends)
        told = ends.pop or return
        servers.filter_map { |server| close(server, told) }.each(&:join)
      end

      # Returns the thread, so that none waits for another; nil: there was none to be had, and the server is closed.
      def close(server, silent)
        Thread.new { server.close(silent:) }
      rescue ThreadError
        server.close(silent:)
        nil
      end

      def control_servers(launcher, metrics, log)
        return [] if @fronts.empty?

        crew = Crew.new(@enrolment, @slots) { |process| process.ask("set", within: 1, **@changes) if @changes.any? }
        looks = Looks.new(@config, @slots, launcher, crew, @changes)
        commands = Commands.new(launcher, looks:, views: Views.new(@slots), crew:, metrics:, pages:, texts:,
                                          board: @board, data_only: @config[:control_data_only])
        @fronts.map { |front| Server.new(front.places, guard: front.guard, commands:, log:) }
      end

      def texts = Texts.new(@slots.page, master: @launcher)

      def pages
        Pages.new(control: !@config[:control_url].nil?) { Dashboard.new(@slots.page, master: @launcher) }
      end

      def watch_launcher(ends)
        Thread.new do
          sleep(LOOK) while beginning_of_launcher == @began
          ends << nil
        end
      end

      # When the process began that has the launcher's number now, in ticks; nil: there is none, or it has ended. Where
      # the system does not tell, true if there is one.
      def beginning_of_launcher
        return launcher_there? unless Platform.here.has?(:proc)

        state, *others = File.read(File.join(Platform.here.root, "proc/#{@launcher}/stat"))[/.*\) (.*)/m, 1].split
        others[18] unless state == "Z"
      rescue SystemCallError
        nil
      end

      def launcher_there?
        Process.kill(0, @launcher) && true
      rescue Errno::ESRCH
        nil
      end

      # What others have open is not open here, and the end of a log's reader is nobody's business. The numbers stay
      # taken, since objects may close them.
      def let_go(kept)
        (Platform.here.descriptors - kept).each { |fd| release(fd) }
      end

      def release(fd)
        IO.for_fd(fd, autoclose: false).reopen(File::NULL)
      rescue SystemCallError, ArgumentError
        nil # was that of the folder, or is Ruby's own
      end

      # The launcher's log, as the control server needs it.
      class RemoteLog
        # @param launcher [Questions]
        def initialize(launcher)
          @launcher = launcher
        end

        # @param text [String]
        def warn(text) = @launcher.log(:warn, text)

        # @param text [String]
        def error(text) = @launcher.log(:error, text)
      end
    end
  end
end
