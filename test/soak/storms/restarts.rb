# frozen_string_literal: true

module Storms
  # Phased restarts one after the other, each fifth one hot; no request fails.
  class Restarts < Storm
    named "restarts", "phased and hot restarts under load: no request fails"

    # Seconds between two beginnings, so that there are 25 in a minute.
    PAUSE = 2.4
    HOT = 5

    private

    def blow
      counts = Hash.new(0)
      under_load("preload_app! false") do |cluster, _|
        every(PAUSE) do |nth|
          name = nth % HOT == 1 ? :USR2 : :USR1
          before = cluster.workers
          cluster.signal(name)
          cluster.renewed(before)
          counts[name] += 1
        end
      end
    ensure
      @figures["restarts"] = "#{counts[:USR1]} phased, #{counts[:USR2]} hot"
    end
  end
end
