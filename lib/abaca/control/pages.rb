# frozen_string_literal: true

require_relative "answer"
require_relative "catalogue"

module Abaca
  class Control
    # The dashboard, as answers of the control server. What it needs is loaded when somebody looks at it.
    class Pages
      # Where a browser gets a link from: with a control server, and without.
      LINKS = "`abacactl dashboard` prints a link."
      ONE_LINK = "The server prints a link when it starts. With activate_control_app, `abacactl dashboard` prints more."
      private_constant :LINKS, :ONE_LINK

      # @param control [Boolean] whether there is a control server for `abacactl`
      # @yieldreturn [Dashboard]
      def initialize(control:, &make)
        @help = control ? LINKS : ONE_LINK
        @make = make
        @lock = Mutex.new
      end

      # The page itself, with what who asks may have done, if the tab has the secret of the link.
      #
      # @param level [Symbol] of who asks
      # @return [Answer]
      def dashboard(_request, level)
        page = board
        deeds = Dashboard::Deeds.allowed { |name| Catalogue.allowed?(name, level) }
        html = page.document(base: "/", deeds:, help: @help)
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
