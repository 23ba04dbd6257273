# frozen_string_literal: true

require_relative "inherited"
require_relative "origin"
require_relative "signals"
require_relative "succession"

module Abaca
  class Launcher
    # A hot restart, from the old program's side. The new program is started first as a child, the stand-in, which
    # listens on the same sockets. When it serves, the old program drains and executes the new one in its place, so the
    # process keeps its number; when that serves too, it ends the stand-in. A new program that does not boot is found by
    # the stand-in, and the old one serves on. docs/signals.md says why.
    class HotRestart
      # Signals that would end the process while Ruby boots again. Where they cannot be held, they are ignored.
      UNTIMELY = ["HUP", "USR1", "USR2", "TTIN", "TTOU", Signals::DUMP].freeze
      # What the next program must not find in its environment.
      OWN = Regexp.union(*Succession::HEIRS, *Succession::FILES, Succession::STAND_IN, Succession::SUCCESSOR,
                         Succession::PAGE)
      STALE = /\A(?:(?:ABACA|PUMA)_INHERIT_\d+|#{OWN}|LISTEN_(?:FDS|PID|FDNAMES))\z/
      # What nobody shall read in the log.
      TOKEN = /(--control-token[ =])\S+/
      # Seconds between two looks whether the process stops meanwhile.
      LOOK = 0.2
      private_constant :UNTIMELY, :OWN, :STALE, :TOKEN, :LOOK

      # @return [Integer, nil] the stand-in's process
      attr_reader :pid

      # @param launcher [Launcher]
      # @param origin [Origin]
      # @param log [Log]
      # @param places [Array<Inherited::Place>] where the old program listens
      # @param systemd [Systemd]
      # @param command [Boolean] whether the new program is the command, of which two may run, and that takes signals
      #   which were held for it; or else connections wait in the kernel's queue while it boots
      def initialize(launcher, origin, log, places, systemd, command:)
        @launcher = launcher
        @signals = launcher.signals
        @config = launcher.config
        @origin = origin
        @log = log
        @places = places
        @systemd = systemd
        @stand_in = command && @config[:restart_overlap]
        @holds = command && !@stand_in && @signals.can_hold? # a stand-in tries whether it works
        @state = :idle
        @cancelled = false
      end

      # Begins, unless a restart is under way or the process ends. A trap handler may call it.
      def begin
        return if @cancelled
        return @log.warn("a restart is under way already") unless @state == :idle

        @state = :booting
        Thread.new { restart }.name = "abaca restart"
        nil
      rescue ThreadError => e
        give_up(e.message)
      end

      # @return [Boolean] whether it has begun, and was not given up
      def under_way? = @state != :idle

      # @return [Boolean] whether the process goes on with a new program once the old one has drained
      def pending? = @state == :draining && !@cancelled

      # The process is to end instead. A trap handler may call it.
      def cancel = @cancelled = true

      # Becomes the new program. Returns only if the process is to end, as a signal has said meanwhile.
      #
      # @param heirs [Array<Control::Heir, nil>] of Succession::HEIRS: their places
      # @raise [ConfigError] if that fails
      def exec(heirs = [])
        changes = run_hooks
        return unless pending?

        remove_files
        @log.info("* Restarting: #{@origin.words.join(' ').gsub(TOKEN, '\1***')}")
        @log.release
        words = successor(Succession::HEIRS.zip(heirs).to_h.compact, changes)
        return @signals.hold { Process.exec(*words) if pending? } if words.first.key?(Signals::HELD)

        UNTIMELY.each { |name| Signal.trap(name, "IGNORE") }
        Process.exec(*words) if pending?
      rescue SystemCallError => e
        raise ConfigError, "the restart failed: #{e.message}"
      end

      # The process ends. Where no stand-in does so, removes the files of sockets that were meant for the new program.
      def close = (@places.each(&:remove_file) if @state == :draining && !@stand_in)

      private

      def restart
        @log.info("* Restarting...")
        @systemd.reloading
        trouble = (@stand_in ? start_stand_in : keep_sockets)
        return if @cancelled
        return give_up(trouble) if trouble

        @state = :draining
        @launcher.hand_over
      rescue StandardError => e
        give_up("#{e.message} (#{e.class})")
      end

      def give_up(trouble)
        @log.error("the restart failed: #{trouble}; this program serves on")
        @systemd.ready
        @state = :idle
      end

      # The server closes its descriptors when it has drained.
      def keep_sockets
        keep(@places.map { |place| [place, place.fds.map { |fd| IO.for_fd(fd, autoclose: false).dup }] })
        nil
      end

      # @param pairs [Array<Array(Inherited::Place, Array<IO>)>] what the next program inherits
      def keep(pairs)
        @sockets = pairs.flat_map(&:last) # as long as they are needed
        @heirs = pairs.map { |place, ios| Inherited::Place.new(place.url, ios.map(&:fileno), place.mark) }
      end

      def successor(heirs, changes)
        page = @launcher.page&.fileno
        environment = base.merge(changes, heirs.transform_values(&:to_s), Succession::FILES.zip(@launcher.files).to_h,
                                 { Succession::SUCCESSOR => [@messages&.fileno, @pid].compact.join(" "),
                                   Succession::PAGE => page&.to_s })
        environment = @signals.for_next(environment) if @holds
        command(@heirs, environment, [@messages&.fileno, page, *heirs.values.flat_map(&:fds)].compact)
      end

      # Returns what is wrong, nil when it serves.
      def start_stand_in
        @messages, others = Messages.pair
        number = others.fileno
        environment = base.merge(Succession::STAND_IN => number.to_s)
        @pid = Process.spawn(*command(@places, @signals.for_next(environment, trial: true), [number]))
        others.close
        trouble = await_stand_in or return
        @messages.close
        trouble
      ensure
        others&.close
      end

      def await_stand_in
        limit = now + @config[:restart_timeout]
        pairs = []
        @holds = false
        until @cancelled
          return end_stand_in("is not ready after #{@config[:restart_timeout]} s") if now > limit
          next unless @messages.ready?(LOOK)

          text, ios = @messages.receive
          return end_stand_in("ended before it was ready (its message is above)") unless text
          return keep(pairs) && nil if text == Succession::READY

          text == Succession::HELD ? @holds = true : pairs << [place_of(text), ios]
        end
        end_stand_in("is not needed any more")
      end

      def place_of(text)
        _, mark, url = text.split(" ", 3)
        Inherited::Place.new(url, [], mark)
      end

      # It has no way back: nothing has been accepted that only it knows of, unless it serves already.
      def end_stand_in(trouble)
        %i[TERM KILL].find do |name|
          Process.kill(name, @pid)
          ended_within?(LOOK * 10)
        end
        "the new program #{trouble}"
      rescue Errno::ESRCH
        "the new program #{trouble}"
      end

      # Looks again and again, since a thread that waits may not be had.
      def ended_within?(seconds)
        limit = now + seconds
        until (ended = Process.wait(@pid, Process::WNOHANG))
          return false if now > limit

          sleep(LOOK / 10)
        end
        ended
      rescue Errno::ECHILD
        true # other code has waited for any child
      end

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      # The hooks may change the environment of the next program. Returns the changes.
      def run_hooks
        before = ENV.to_h
        @launcher.plugins.before_restart
        @config.hooks(:before_restart).each { |hook| hook.run(@log, @launcher) }
        after = ENV.to_h
        (before.keys | after.keys).to_h { |name| [name, after[name]] }.reject { |name, value| before[name] == value }
      end

      # Those of sockets that the new program does not listen on.
      def remove_files
        wanted = @heirs.map(&:url)
        @places.each { |place| place.remove_file unless wanted.include?(place.url) }
      end

      def base
        @origin.environment.reject { |name, _| STALE.match?(name) }.update("PWD" => @origin.directory)
      end

      # Arguments of Process.exec and Process.spawn.
      def command(places, environment, others)
        environment = environment.merge(Inherited.variables(places))
        program, *arguments = @origin.words
        fds = places.flat_map(&:fds) + others
        [environment, [program, program], *arguments,
         { unsetenv_others: true, chdir: @origin.directory, close_others: false, **fds.to_h { |fd| [fd, fd] } }]
      end
    end
  end
end
