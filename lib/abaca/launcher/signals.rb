# frozen_string_literal: true

module Abaca
  class Launcher
    # The signal handlers of a process; docs/signals.md has the same table in words. Handlers only request things: what
    # serves wakes up and does the work.
    #
    # No signal is lost when the process executes another program in its place. #hold blocks the signals, and so they
    # wait in the kernel. Ruby would unblock them as soon as it boots; a small library that is preloaded keeps it from
    # that (ext/abaca/held_signals.c). The new program catches them (.new), and hands them to its handlers (#trap). It
    # unblocks them before it runs any code of the app's: threads and children have their parent's mask.
    class Signals
      # INFO where the system has it, as on BSD and macOS.
      DUMP = Signal.list.key?("INFO") ? "INFO" : "PWR"
      # What ends a process that has no handler of its own.
      ENDING = %w[INT TERM QUIT].freeze
      # In the environment: a process, and the numbers of the signals that are held for it.
      HELD = "ABACA_HELD"
      PRELOAD = "LD_PRELOAD"
      LIBRARY = "abaca_held.so"
      # Ruby waits for children by it.
      NEVER_HELD = %w[CHLD].freeze
      private_constant :ENDING, :PRELOAD, :LIBRARY, :NEVER_HELD

      class << self
        # @param environment [Hash{String => String}]
        # @return [Hash{String => String}] without what #for_next has added
        def clean(environment)
          others = environment[PRELOAD].to_s.split(/[ :]/).reject { |path| File.basename(path) == LIBRARY }
          environment = environment.except(HELD, PRELOAD)
          others.empty? ? environment : environment.merge(PRELOAD => others.join(":"))
        end
      end

      # Catches signals that were held for this program. The environment loses the variables.
      def initialize
        @pid = Process.pid
        @actions = {}
        @previous = {}
        @tried = []
        @caught = []
        process, *numbers = ENV[HELD]&.split&.map(&:to_i)
        return unless process

        ENV.update({ HELD => nil, PRELOAD => nil, **Signals.clean(ENV.slice(PRELOAD)) })
        take(process, numbers)
      end

      # @return [Boolean] whether signals were held for this program until #initialize
      def held? = @held == true

      # Until there are handlers: calls the block when a signal comes, or has come, that ends the process.
      def ending(&block)
        @ending = block
        block.call if @caught.intersect?(ENDING)
      end

      # Sets the handlers, and hands over what was caught.
      #
      # @param actions [Hash{String => #call}] by signal
      def trap(actions)
        @actions = actions
        (actions.keys - @previous.keys).each { |name| @previous[name] = set(name) }
        (@previous.keys - actions.keys).each { |name| reset(name) }
        while (name = @caught.shift)
          actions[name]&.call
        end
      end

      # Restores the previous handlers.
      def restore
        reset(@previous.first.first) until @previous.empty?
      end

      # @return [Boolean] whether the build has what #hold needs
      def can_hold? = !library.nil?

      # Runs a block that executes another program: what comes from now on is for that. Returns if it does not.
      def hold
        Engine.hold_signals(numbers)
        while (name = @caught.shift)
          Process.kill(name, @pid)
        end
        yield
      ensure
        @previous.each_key { |name| set(name) }
        Engine.release_signals(numbers)
      end

      # @param environment [Hash{String => String}] of a program that is executed by #hold
      # @param trial [Boolean] or else by a child, which tries whether signals can be held here
      # @return [Hash{String => String}] the same, with what keeps the signals blocked
      def for_next(environment, trial: false)
        return environment if library.nil? || numbers.empty?

        process = @tried.empty? ? @pid : -Process.ppid
        preload = [environment[PRELOAD], library].compact.join(":")
        environment.merge(PRELOAD => preload, HELD => [trial ? -@pid : process, *numbers].join(" "))
      end

      private

      # It is beside the extension. In the variable, there is no way to quote.
      def library
        return unless Platform.here.has?(:held_signals)

        extension = $LOADED_FEATURES.find { |path| path.match?(%r{/abaca/abaca\.\w+\z}) }
        path = File.join(File.dirname(extension), LIBRARY)
        path if File.file?(path) && !path.match?(/[ :]/)
      end

      def numbers = (@previous.keys - NEVER_HELD + @tried).map { |name| Signal.list.fetch(name) }

      # A child of the process only tries; other children, of programs in between, may have the variable, too.
      def take(process, numbers)
        names = numbers.filter_map { |number| Signal.signame(number) }
        case process
        when @pid then names.each { |name| @previous[name] = set(name) }
        when -Process.ppid then @tried = names
        else return
        end
        @held = Engine.holds_signals?(numbers)
        Engine.release_signals(numbers)
      end

      # Returns the previous handler.
      def set(name) = Signal.trap(name) { Process.pid == @pid ? handle(name) : in_child(name) }

      def reset(name) = Signal.trap(name, @previous.delete(name) || "DEFAULT")

      def handle(name)
        action = @actions[name]
        if action then action.call
        elsif @ending && ENDING.include?(name) then @ending.call
        else @caught << name
        end
      end

      # A forked child has the handlers of its parent until it sets its own. It ends when it is told to, and ignores
      # what else came for its parent.
      def in_child(name)
        return unless ENDING.include?(name)

        Signal.trap(name, "DEFAULT")
        Process.kill(name, Process.pid)
      end
    end
  end
end
