# frozen_string_literal: true

module Abaca
  class Launcher
    # What others see of the process while it may hang: its page, and the control server, which reads it.
    module Watched
      private

      # Before the app is loaded: what serves is forked from this process.
      def begin_control
        @pid = Process.pid
        @slots = make_slots
        @control = Control.new(self, @config, @log, slots: @slots)
        @control.begin(@succession.control)
      end

      def make_slots
        return Cluster::Slots.new(@config[:workers]) if clustered?

        OnlySlot.new if @config[:control_url] || @systemd.watchdog?
      end

      # What there is still, if the app has not loaded. A forked child has none of it.
      def end_control
        @control&.close if @pid == Process.pid
      end
    end
  end
end
