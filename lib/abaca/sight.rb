# frozen_string_literal: true

require_relative "page"

module Abaca
  # What a server does, as screens: the model that `abaca top`, the dashboard, JSON and the control server's texts have
  # in common. It is made of a page alone, and of what the kernel says of the processes: nobody is asked who may hang.
  #
  #   sight = Abaca::Sight.new(Abaca::Page.of(pid))
  #   sight.look
  #   sleep 1
  #   look = sight.look                                          # rates are those of this second
  #   sight.overview(look).lines
  #   sight.screen(:requests, look, filter: "/reports").rows
  class Sight
    # Here, since the constant is loaded by its name elsewhere.
    require_relative "sight/json"
    require_relative "sight/look"
    require_relative "sight/machine"
    require_relative "sight/overview"
    require_relative "sight/reading"
    require_relative "sight/screens/clients"
    require_relative "sight/screens/events"
    require_relative "sight/screens/fibers"
    require_relative "sight/screens/requests"
    require_relative "sight/screens/routes"
    require_relative "sight/screens/waits"
    require_relative "sight/screens/workers"
    require_relative "sight/waterfall"

    # In the order of their keys.
    SCREENS = [Screens::Workers, Screens::Requests, Screens::Routes, Screens::Waits, Screens::Fibers, Screens::Clients,
               Screens::Events].to_h { |screen| [screen.key, screen] }.freeze
    # The layout of what #to_h returns: keys are only added.
    LAYOUT = 1
    # From this number on, requests are in the queue: they are counted by themselves.
    QUEUED = 1 << 63
    private_constant :QUEUED

    # @param page [Page]
    # @param master [Integer, nil] its process, where it is known
    # @param root [String] the folder that has /proc and /sys
    def initialize(page, master: nil, root: Platform.here.root)
      @page = page
      @master = master
      @machine = Machine.new(root:)
    end

    # Looks at the page.
    #
    # @return [Look] at what there is, and at what has happened since the last one
    def look
      reading = Reading.new(@page, master: @master, machine: @machine)
      look = Look.new(reading, @last, machine: @machine, master: @master)
      @last = reading
      look
    end

    # @param look [Look]
    # @return [Overview]
    def overview(look)
      @title ||= @master ? @machine.files.title(@master) : {}
      Overview.new(look, title: @title)
    end

    # @param name [Symbol] a key of SCREENS
    # @param look [Look]
    # @param options [Hash{Symbol => Object}] as for Screen.new
    # @return [Screen]
    def screen(name, look, **options) = SCREENS.fetch(name).new(look, **options)

    class << self
      # @param slot [Integer]
      # @param number [Integer] of a request in the slot
      # @return [String] as people see it: `0.4711`; in the queue, `0.q3`
      def id(slot, number) = "#{slot}.#{name(number)}"

      # @param number [Integer] of a request in its slot
      # @return [String] without the slot
      def name(number) = queued?(number) ? "q#{number - QUEUED}" : number.to_s

      # @param text [#to_s] an id, or what stands behind its dot
      # @return [Integer, nil] the number of a request in its slot
      def number(text)
        queued, digits = text.to_s.match(/\A(?:\d{1,4}\.)?(q?)(\d{1,19})\z/)&.captures
        digits && (digits.to_i | (queued.empty? ? 0 : QUEUED))
      end

      # @param number [Integer] of a request in its slot
      # @return [Boolean] whether it waits to be taken
      def queued?(number) = number >= QUEUED

      # When others have kept the loop of a request, as far as the events have it.
      #
      # @param events [Array<Hash>] of its worker
      # @param request [Hash{Symbol => Object}]
      # @param till [Time] when that has ended, or was looked at
      # @return [Array<Hash{Symbol => Object}>] `at` and `time` in seconds from its begin on, `request` and `text`
      def stalls(events, request, till)
        others = events.select { |one| one[:kind] == :stall && one[:request] != request[:id] }
        others.filter_map { |event| stall(event, till, request[:age]) }.sort_by { |stall| stall[:at] }
      end

      private

      # What of it there was within an age.
      def stall(event, till, age)
        from = age - (till - event[:at])
        last = [from + event[:time].to_f, age].min
        at = [from, 0.0].max
        { at:, time: last - at, request: event[:request], text: event[:text] } if last > at
      end
    end

    # @param look [Look]
    # @param worker [Reading::Worker]
    # @param id [Integer]
    # @return [Waterfall, nil] of a request that is there, or was kept
    def detail(look, worker, id)
      there = look.now.request(worker, id)
      return Waterfall.new(there, stalls: Sight.stalls(worker.slot.events, there, Time.now)) if there

      kept = look.now.kept(worker, id) or return
      Waterfall.new(kept, ended: true, stalls: Sight.stalls(worker.slot.events, kept, kept[:ended_at]))
    end

    # @param look [Look]
    # @param screens [Array<Symbol>]
    # @param most [Integer] rows of each
    # @param options [Hash{Symbol => Object}] as for Screen.new
    # @return [Hash{Symbol => Object}] a look for JSON
    def to_h(look, screens: SCREENS.keys, most: Screen::MOST, **options)
      { v: LAYOUT, at: look.now.time, seconds: look.seconds, overview: overview(look).to_h,
        screens: screens.to_h { |name| [name, screen(name, look, **options).to_h(most:)] } }
    end
  end
end
