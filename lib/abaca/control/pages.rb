# frozen_string_literal: true

require_relative "answer"
require_relative "catalogue"

module Abaca
  class Control
    # The dashboard, as answers of the control server. What it needs is loaded when somebody looks at it.
    class Pages
      HELP = "`abacactl dashboard` prints a link that lets this browser in."
      private_constant :HELP

      # @param sessions [Sessions] of browsers
      # @yieldreturn [Dashboard]
      def initialize(sessions, &make)
        @sessions = sessions
        @make = make
        @lock = Mutex.new
      end

      # The page itself, with what who asks may have done.
      #
      # @param request [Request]
      # @param level [Symbol] of who asks
      # @return [Answer]
      def dashboard(request, level)
        token = @sessions.token(request["cookie"])
        page = board
        deeds = Dashboard::Deeds.allowed { |name| token && Catalogue.allowed?(name, level) }
        html = page.document(base: "/", token:, deeds:, help: HELP)
        Answer.new(200, "text/html; charset=utf-8", html, Dashboard::Assets.fields)
      end

      # Looks, as long as the browser shows them. The first one is there at once.
      #
      # @param request [Request]
      # @return [Answer]
      def live(request, _level)
        live = board.live(request.method(:parameter))
        Answer.new(200, "text/event-stream", live.next, nil, live)
      end

      # One request in detail.
      #
      # @param request [Request]
      # @return [Answer]
      def request(request, _level)
        found = board.request(request.method(:parameter))
        if found
          Answer.new(200, "application/json",
                     found)
        else
          Answer.text(404, "This request has ended, and was not kept")
        end
      end

      private

      def board = @lock.synchronize { @board ||= @make.call }
    end
  end
end
