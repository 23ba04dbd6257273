# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # Where a worker stands: its number, its generation and its part of the shared page; and the Orders, for one from
      # which others are forked.
      Place = Struct.new(:index, :phase, :slot, :orders)

      # The shared page. Each number of a worker has two slots, since at a phased restart two workers have the same one.
      class Slots
        # Workers that TTIN may ask for, at least.
        LEAST = 32
        private_constant :LEAST

        # @return [Integer] how many workers there may be
        attr_reader :most
        # @return [Page]
        attr_reader :page

        # @param workers [Integer] how many there are at the start
        # @param config [Config]
        def initialize(workers, config)
          @most = [workers * 2, LEAST].max
          @page = Page.create(slots: @most * 2, **Config::Admission.rows(config), path: Page::Files.own)
          @started_at = Time.now
        end

        # Frees a slot for a new worker. The master knows that no worker has it, whatever the page says.
        #
        # @param index [Integer] a worker's number
        # @param taken [Array<Page::Slot>] those of workers whose ends are not known
        # @return [Page::Slot, nil] nil if this number has no slot at the moment
        def free(index, taken)
          return if index >= @most

          slot = [index, index + @most].map { |i| @page[i] }.find { |one| !taken.include?(one) }
          slot&.state = :ended
          slot
        end

        # @param number [Integer] of a slot
        # @return [Page::Slot]
        def [](number) = @page[number]

        # @return [Hash{Symbol => Object}] figures of all workers, and of all that have ended
        def sums = @page.sums

        # @param config [Config]
        # @return [Hash{Symbol => Object}] the figures in Puma's shape
        def stats(config)
          Control::PumaStats.cluster(@page, places: Config::Modes.places(config), started_at: @started_at,
                                            phase: @page.filter_map(&:phase).max || 0, numbers: @most)
        end

        # Idempotent.
        def close
          @page.close
          Page::Files.remove
        end
      end
    end
  end
end
