# frozen_string_literal: true

module Abaca
  class Control
    # Looks as text: what `abaca top` shows on that screen, for those who ask without it. What it needs is loaded when
    # somebody asks.
    class Texts
      # The screens of looks; other looks have none.
      SCREENS = { "workers" => :workers, "requests" => :requests, "routes" => :routes, "waits" => :waits,
                  "loops" => :fibers, "clients" => :clients, "events" => :events }.freeze
      # Columns of the text, where nobody says how many.
      WIDTH = 140
      WIDTHS = (40..500)
      # Seconds for which a look is good; a first one takes as long, since there are no rates without them; and those
      # after which it says nothing about the next one's rates.
      FRESH = 0.1
      OLD = 30.0
      private_constant :SCREENS, :WIDTH, :WIDTHS, :FRESH, :OLD

      # @param page [Page]
      # @param master [Integer] the server's process
      def initialize(page, master:)
        @page = page
        @master = master
        @lock = Mutex.new
      end

      # @param name [String] of a look
      # @param request [Request] says `columns`, `filter` and `worker`
      # @param places [Hash{String => String}] where requests are, by their ids
      # @return [Answer, nil] nil: that look has no screen
      def answer(name, request, places: {})
        screen = SCREENS[name] or return
        @lock.synchronize { Answer.text(200, text(screen, request, places)) }
      end

      private

      def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

      def look
        age = @look ? now - @look.now.at : OLD
        return @look if age < FRESH

        begin_anew if age >= OLD
        @look = @sight.look
      end

      def begin_anew
        @sight = Sight.new(@page, master: @master)
        @sight.look
        sleep(FRESH)
      end

      def text(screen, request, places)
        look.places = places
        columns = Integer(request.parameter("columns").to_s, 10, exception: false) || WIDTH
        worker = Integer(request.parameter("worker").to_s, 10, exception: false)
        pages = Top::Pages.new(@sight, out: nil, style: Top::Style.new(dumb: true), screens: [screen],
                                       filter: request.parameter("filter").to_s, worker:)
        "#{pages.page(@look, columns.clamp(WIDTHS.min, WIDTHS.max)).join("\n")}\n"
      end
    end
  end
end
