# frozen_string_literal: true

module Abaca
  class Launcher
    # What others see of the process while it may hang: its page, and the control server, which reads it.
    module Watched
      # Ends a worker gracefully, or has it replaced, if there are workers.
      #
      # @param index [Integer]
      # @return [Boolean] whether there is such a one
      def drain_worker(index) = clustered? && @runner.drain_worker(index)

      # The same, but its successor boots first.
      def recycle_worker(index) = clustered? && @runner.recycle_worker(index)

      private

      # Before the app is loaded: what serves is forked from this process.
      def begin_control
        @pid = Process.pid
        @slots = make_slots
        @succession.carry(@slots.page, @log)
        @control = Control.new(self, @config, @log, slots: @slots, earlier: @succession.files[1])
        @control.begin(@succession.heirs)
      end

      # Marks when this program begins to serve, and with which revision of the app.
      def mark_begin
        revision = Revision.of
        return unless @slots && (revision || @succession.successor?)

        what = @succession.successor? ? "restart" : "start"
        @slots[0].note(:mark, [what, *("revision #{revision}" if revision)].join(", "))
      end

      def make_slots
        clustered? ? Cluster::Slots.new(@config[:workers], @config) : OnlySlot.new(@config)
      end

      # What is the master's alone.
      def forget_in_worker
        @control.become_worker
        @keeper&.forget
        @overdue.forget
      end

      # What there is still, if the app has not loaded. A forked child has none of it.
      def end_control
        return unless @pid == Process.pid

        Launcher.current = nil
        @control&.close
        @pidfile.remove
      end
    end
  end
end
