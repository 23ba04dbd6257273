# frozen_string_literal: true

require_relative "sight"

module Abaca
  # What a server does, as a page for a browser: the screens of `abaca top`, live. It is made of the shared page alone,
  # so that it shows what goes on while the server hangs. The control server serves it (docs/sight.md), and Abaca::Web
  # within an app.
  class Dashboard
    # Here, since the constant is loaded by its name elsewhere.
    require_relative "dashboard/slow"
    require_relative "dashboard/assets"
    require_relative "dashboard/deeds"
    require_relative "dashboard/document"
    require_relative "dashboard/live"
    require_relative "dashboard/pulse"

    # In the order of their keys.
    SCREENS = { **Sight::SCREENS, slow: Slow }.freeze
    # The layout of what browsers get.
    LAYOUT = 1

    # @return [Pulse] the looks, which all who watch have in common
    attr_reader :pulse

    # @param page [Page]
    # @param master [Integer, nil] the server's process, where it is known
    def initialize(page, master: nil)
      @page = page
      @pulse = Pulse.new(page) { Sight.new(page, master:) }
    end

    # @param base [String] where its other addresses are: ends with a slash
    # @param token [String, nil] what a deed must bring along; nil: the secret of the tab's link
    # @param deeds [Array<Hash>] Deeds.allowed
    # @param help [String] how to be let in again
    # @return [String] HTML
    def document(base:, token: nil, deeds: [], help: "")
      Document.new(base:, token:, deeds:, help:, numbers: [@page.size / 2, 1].max).to_s
    end

    # @param question [#call] gives a parameter's value by its name
    # @return [Live] what is sent to a browser from now on
    def live(question) = Live.new(@page, @pulse, question)

    # @param question [#call] the same: `worker` and `id` of a request
    # @return [String, nil] JSON on one line; nil: it has ended, and was not kept
    def request(question)
      number = Integer(question.call("worker").to_s, 10, exception: false)
      id = Sight.number(question.call("id"))
      return unless number && id

      @pulse.look do |look, sight|
        worker = look.now.workers.find { |one| one.index == number }
        found = worker && sight.detail(look, worker, id)
        found && Sight::JSON.line({ v: LAYOUT, worker: number, **found.to_h, id: Sight.name(id) })
      end
    end
  end
end
