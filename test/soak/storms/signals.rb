# frozen_string_literal: true

module Storms
  # A thousand signals a second to the master, half of them HUP: no request fails, and the master and its workers
  # are in order afterwards.
  class Signals < Storm
    named "signals", "1,000 signals a second to the master, HUP most of all"

    PAUSE = 0.001
    # CHLD comes without a child that has ended.
    OTHERS = %i[TTIN TTOU CHLD URG PWR].freeze
    # One in so many is a restart. They would be under way all the time, which is another storm.
    RESTART = 200

    private

    def blow
      counts = Hash.new(0)
      under_load("preload_app! false") do |cluster, clients|
        every(PAUSE) do |nth|
          name = name(nth)
          counts[name] += 1 if cluster.signal(name)
        end
        raise Failed, "the master has ended: #{cluster.last_lines}" if cluster.ended?

        afterwards(cluster, clients)
      end
    ensure
      @figures["signals"] = counts.sort.map { |name, count| "#{count} #{name}" }.join(", ")
    end

    def name(nth)
      return :HUP if nth.even?

      nth % RESTART == 1 ? :USR1 : OTHERS.sample(random: @random)
    end

    # A signal still has its effect: TTOU and TTIN lead back to where it began.
    def afterwards(cluster, clients)
      cluster.level
      before = clients.answers
      Storms.wait_for("an answer") { clients.answers > before + 100 }
    end
  end
end
