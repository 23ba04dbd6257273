# frozen_string_literal: true

require "io/console"
require "io/wait"
require_relative "keys"

module Abaca
  class Top
    # A terminal in raw mode with its second screen, which are both given back whatever happens: at the end, for an
    # exception, at TERM, HUP, INT and QUIT, and while the process is stopped by Ctrl-Z.
    class Terminal
      ENTER = "\e[?1049h\e[?25l\e[?7l\e[2J"
      LEAVE = "\e[m\e[?7h\e[?25h\e[?1049l"
      ENDS = %w[INT TERM HUP QUIT].freeze
      # Seconds in which the rest of a key has come.
      REST = 0.05
      # Where nothing is known.
      SIZE = [24, 80].freeze
      private_constant :ENTER, :LEAVE, :ENDS, :REST, :SIZE

      # @param input [IO]
      # @param output [IO]
      def initialize(input, output)
        @input = input
        @output = output
        @keys = Keys.new
        @reader, @writer = IO.pipe
        @shown = []
      end

      # Yields, and ends by the signal that has come meanwhile, if one has.
      def use
        @mode = @input.console_mode
        traps = trap_signals
        enter
        yield
      ensure
        leave
        traps&.each { |name, handler| Signal.trap(name, handler || "DEFAULT") }
        [@reader, @writer].each(&:close)
        Process.kill(@ended_by, Process.pid) if @ended_by
      end

      # @return [Array(Integer, Integer)] lines and columns
      def size
        lines, columns = @output.winsize
        lines.positive? && columns.positive? ? [lines, columns] : SIZE
      rescue SystemCallError
        SIZE
      end

      # Shows a screen; only lines that differ from the last one are written.
      #
      # @param lines [Array<String>] with attributes, none wider than the terminal
      def draw(lines)
        text = lines.each_with_index.filter_map do |line, i|
          "\e[#{i + 1};1H\e[2K#{line}" unless line == @shown[i]
        end
        text << "\e[#{lines.size + 1};1H\e[J" if lines.size < @shown.size
        @shown = lines
        return if text.empty?

        @output.write(text.join)
        @output.flush
      end

      # Waits for keys.
      #
      # @param seconds [Float] at most
      # @return [Array<String, Symbol>] keys; :resize, :over when there will be none any more
      def keys(seconds)
        ready, = IO.select([@input, @reader], nil, nil, seconds)
        return [] unless ready

        [*(signals if ready.include?(@reader)), *(typed if ready.include?(@input))]
      end

      # Stops the process, as Ctrl-Z does, and comes back when it is continued.
      def suspend
        leave
        before = Signal.trap("TSTP", "SYSTEM_DEFAULT")
        Process.kill("TSTP", Process.pid)
        Signal.trap("TSTP", before)
        enter
      end

      # The next screen is written as a whole.
      def redraw
        @shown = []
        @output.write("\e[2J")
      end

      private

      def enter
        @input.raw!
        @output.write(ENTER)
        @output.flush
        @shown = []
      end

      # The terminal may be gone.
      def leave
        @output.write(LEAVE)
        @output.flush
        @input.console_mode = @mode if @mode
      rescue SystemCallError, IOError
        nil
      end

      def trap_signals
        [*ENDS, "WINCH", "CONT", "TSTP"].to_h { |name| [name, Signal.trap(name) { note(name) }] }
      end

      # The pipe is full when nobody has looked for a thousand signals.
      def note(name)
        @writer.write_nonblock("#{name}\n", exception: false)
      end

      def signals
        @reader.read_nonblock(4096).split("\n").map { |name| signal(name) }
      end

      def signal(name)
        case name
        when "WINCH" then :resize
        when "TSTP" then :suspend
        when "CONT" # after a STOP, which nobody is told of: the shell has had the terminal
          enter
          :resize
        else
          @ended_by = name
          :over
        end
      end

      # The terminal's descriptor is the shell's too, and must not become one that does not block.
      def typed
        keys = @keys.feed(@input.sysread(4096))
        keys += @keys.flush if @keys.begun? && !@input.wait_readable(REST)
        keys
      rescue SystemCallError, IOError # EOFError: the terminal is gone
        [:over]
      end
    end
  end
end
