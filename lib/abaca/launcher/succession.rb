# frozen_string_literal: true

require_relative "activated"
require_relative "from_puma"
require_relative "inherited"
require_relative "messages"

module Abaca
  class Launcher
    # What a program finds that was started by a hot restart (docs/signals.md): it is the stand-in, which serves while
    # the process restarts, or the successor in that process, which ends the stand-in. In any other program it finds
    # nothing, and its methods do nothing.
    class Succession
      STAND_IN = "ABACA_STAND_IN"
      SUCCESSOR = "ABACA_SUCCESSOR"
      # What has listened beside the app: the control server, `metrics_port`, the dashboard.
      HEIRS = %w[CONTROL METRICS DASHBOARD].map { |name| "ABACA_INHERIT_#{name}" }.freeze
      # Files of the last program: the pidfile, the state file.
      FILES = %w[PIDFILE STATE_FILE].map { |name| "ABACA_INHERIT_#{name}" }.freeze
      # The page of the last program.
      PAGE = "ABACA_INHERIT_PAGE"
      # Messages of the two: a listener with its descriptors, signals were held, all is ready, and the end.
      LISTENER = "listener"
      HELD = "held"
      READY = "ready"
      DONE = "done"
      # Settings of what there is only once: a stand-in has none of it.
      ONCE = { pidfile: nil, state_path: nil, control_url: nil, metrics_port: nil, dashboard: false, plugins: [].freeze,
               after_booted: [].freeze, after_stopped: [].freeze, idle_timeout: 0 }.freeze
      private_constant :ONCE

      # @return [Inherited] the sockets
      attr_reader :inherited

      # @return [Array<Control::Heir, nil>] of HEIRS: their places
      attr_reader :heirs

      # @return [Array<String, nil>] of FILES: their paths
      attr_reader :files

      # @return [Integer, nil] the stand-in's process, in its successor
      attr_reader :pid

      # @param env [Hash{String => String}, ENV] loses the variables
      def initialize(env = ENV)
        @inherited = Inherited.new(env)
        @heirs = HEIRS.map { |name| (text = env.delete(name)) && Control::Heir.parse(text) }
        @files = FILES.map { |name| env.delete(name) }
        @page = env.delete(PAGE)
        fd = env.delete(STAND_IN)
        @stand_in = !fd.nil?
        @restarted = @stand_in || env.key?(SUCCESSOR)
        successor, pid = env.delete(SUCCESSOR)&.split
        @messages = messages(fd || successor)
        @pid = Integer(pid, 10) if pid
        Thread.new { watch }.name = "abaca stand-in" if @stand_in
      end

      # @return [Boolean] whether this program is the stand-in
      def stand_in? = @stand_in

      # @return [Boolean] whether another program was here before
      def restarted? = @restarted

      # @return [Boolean] whether it was in this process
      def successor? = @restarted && !@stand_in

      # @param config [Config]
      # @return [Config] of this program: the logs are continued, and a stand-in has nothing that there is only once
      def adapt(config)
        redirect = config[:redirect]
        config = config.with(redirect: redirect.merge(append: true)) if @restarted && redirect
        @stand_in ? config.with(ONCE) : config
      end

      # Copies history, events and kept requests from the last program's page.
      #
      # @param page [Page] without claims
      # @param log [Log]
      def carry(page, log)
        return unless @page

        io = IO.for_fd(Integer(@page, 10))
        page.carry(io.fileno)
      rescue Error, SystemCallError, ArgumentError => e
        log.info("* The history of the last program is dropped: #{e.message}")
      ensure
        io&.close
      end

      # The program serves from now on. A stand-in says so, and calls the block when it has to end: with true if its
      # successor serves, with false if the process has ended without one, whose files it then removes. A successor ends
      # the stand-in.
      #
      # @param places [Array<Inherited::Place>] where it listens
      # @param held [Boolean] whether signals were held for it
      # @yieldparam succeeded [Boolean]
      def serving(places, held:, &ending)
        return unless @messages

        @places = places
        @ending = ending
        @stand_in ? report(held) : dismiss
      rescue SystemCallError
        nil # the other one has ended; a stand-in finds that out elsewhere
      end

      # The process ends before it has become the successor. A stand-in removes the files of the sockets by itself.
      def give_up = (@inherited.remove_files unless @messages)

      private

      def messages(number)
        return unless number

        Messages.new(UNIXSocket.for_fd(Integer(number, 10)).tap { |socket| socket.close_on_exec = true })
      end

      def report(held)
        @places.each do |place|
          ios = place.fds.map { |fd| IO.for_fd(fd, autoclose: false) }
          @messages.put("#{LISTENER} #{place.mark} #{place.url}", *ios)
        end
        @messages.put(HELD) if held
        @messages.put(READY)
      end

      # The process that a stand-in stands in for may end at any time; while it boots, there is nothing to end in order.
      def watch
        succeeded = @messages.receive&.first == DONE
        Process.exit!(1) unless @ending
        @places.each(&:remove_file) unless succeeded
        @ending.call(succeeded)
      end

      def dismiss
        @messages.put(DONE)
        Process.detach(@pid)
      rescue ThreadError
        nil # none to be had: nobody waits for its end
      ensure
        @messages.close
      end
    end
  end
end
