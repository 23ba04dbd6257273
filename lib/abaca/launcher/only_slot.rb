# frozen_string_literal: true

module Abaca
  class Launcher
    # The shared page of a single process: one slot, which others may read at any time, also while the process hangs.
    class OnlySlot
      # @return [Page]
      attr_reader :page

      # @param config [Config]
      def initialize(config)
        @page = Page.create(slots: 1, **Config::Admission.rows(config), path: Page::Files.own)
        @started_at = Time.now
      end

      # @return [Integer] how many processes there may be
      def most = 1

      # @return [Page::Slot] that is this process's from now on
      def claim = @page[0].claim

      # @param config [Config]
      # @return [Hash{Symbol => Object}] figures in Puma's shape, as far as the page has them
      def stats(config)
        slot = @page[0]
        Control::PumaStats.single(slot.figures, places: Config::Modes.places(config),
                                                started_at: slot.started_at || @started_at)
      end

      # @param number [Integer] of a slot
      # @return [Page::Slot]
      def [](number) = @page[number]

      # Idempotent. A server that runs in the slot keeps the page until it has ended.
      def close
        @page.close
        Page::Files.remove
      end
    end
  end
end
