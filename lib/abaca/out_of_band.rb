# frozen_string_literal: true

module Abaca
  # Calls the hooks `out_of_band`: after a request, when no other is in the app, and while none begins. They run on a
  # thread of their own, and the engine turns meanwhile: requests that come wait, and new connections are left to other
  # processes that listen there.
  class OutOfBand
    # Seconds that hooks have to end when the server has.
    GRACE = 5

    # @param hooks [Array<Config::Hook>]
    # @param log [Log] hears of what they raise
    def initialize(hooks, log)
      @hooks = hooks
      @log = log
    end

    # @return [Proc, nil] to be called when they may begin; nil: there are none
    def to_proc = (-> { begin_now } unless @hooks.empty?)

    # Runs the block, and the hooks between requests meanwhile.
    #
    # @param engine [Engine] which calls the Proc, and is told when they have ended
    def between_requests(engine)
      @engine = engine
      yield
    ensure
      @thread&.join(GRACE) || @thread&.kill&.join
    end

    private

    def begin_now
      @thread = Thread.new do
        @hooks.each { |hook| hook.run(@log) }
      ensure
        @engine.end_out_of_band
      end
      @thread.name = "abaca out of band"
    end
  end
end
