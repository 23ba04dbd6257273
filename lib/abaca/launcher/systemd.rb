# frozen_string_literal: true

module Abaca
  class Launcher
    # Tells systemd how the service is (sd_notify), if it has asked: that it is ready, restarts or stops, what it does,
    # and, for the watchdog, that it serves. A message that cannot be sent is dropped: nothing here waits or raises.
    class Systemd
      SKIP = %w[ABACA_SKIP_SYSTEMD PUMA_SKIP_SYSTEMD].freeze
      # Seconds between two lines of status.
      PAUSE = 5.0
      # A server says each second that it turns. It is late when it has not done so for longer.
      SHORTEST = 3.0
      private_constant :SKIP, :PAUSE, :SHORTEST

      # @param log [Log]
      # @param silent [Boolean] whether another process speaks for the service
      # @param env [Hash{String => String}, ENV]
      def initialize(log, silent: false, env: ENV)
        @log = log
        path = env["NOTIFY_SOCKET"]
        return if silent || path.to_s.empty? || SKIP.any? { |name| env.key?(name) }

        @interval = interval(env)
        @socket = Socket.new(:UNIX, :DGRAM)
        @address = Addrinfo.unix(path.sub(/\A@/, "\0"))
        @log.info("* Enabling systemd notification integration")
      rescue ArgumentError, SystemCallError => e # the path is too long, or of another kind
        @log.warn("NOTIFY_SOCKET=#{path} is of no use: #{e.message}")
      end

      # @return [Boolean] whether systemd has asked
      def on? = !@address.nil?

      # @return [Boolean] whether it wants to hear regularly that the service serves
      def watchdog? = on? && !@interval.nil?

      # The service serves, for the first time or again.
      def ready = tell("READY=1")

      # A restart has begun; #ready ends it.
      def reloading
        tell("RELOADING=1\nMONOTONIC_USEC=#{Process.clock_gettime(Process::CLOCK_MONOTONIC, :microsecond)}")
      end

      def stopping = tell("STOPPING=1")

      # From now on sends a line of status every few seconds, and feeds the watchdog.
      #
      # @yieldparam limit [Float] seconds
      # @yieldreturn [String, nil] the status; nil if the service has not served for so long: the watchdog gets nothing
      def watch(&look)
        return unless on?

        close
        @thread = Thread.new { look_after(look) }
        @thread.name = "abaca systemd"
        @thread.report_on_exception = false
      end

      # Ends that.
      def close = @thread&.kill

      private

      # A watchdog may be another process's.
      def interval(env)
        microseconds = Integer(env["WATCHDOG_USEC"].to_s, 10, exception: false)
        mine = env["WATCHDOG_PID"].to_s.empty? || env["WATCHDOG_PID"] == Process.pid.to_s
        microseconds / 1_000_000.0 if microseconds&.positive? && mine
      end

      def look_after(look)
        pause = [PAUSE, @interval && (@interval / 2)].compact.min
        limit = [@interval ? @interval / 2 : PAUSE, SHORTEST].max
        loop do
          say_status(look, limit)
          sleep(pause)
        end
      end

      def say_status(look, limit)
        status = look.call(limit)
        tell(["STATUS=#{status || 'does not serve'}", *("WATCHDOG=1" if status && watchdog?)].join("\n"))
      rescue StandardError => e
        @log.debug("no status for systemd: #{e.message} (#{e.class})")
      end

      def tell(text)
        @socket.sendmsg_nonblock(text, 0, @address, exception: false) if on?
      rescue SystemCallError, IOError => e
        @log.debug("systemd does not listen: #{e.message}")
      end
    end
  end
end
