# frozen_string_literal: true

module Bench
  module Modes
    # A few requests compute for seconds, beside 50 light keep-alive clients.
    class Hog < Row
      HEALTH = "/livez"
      LIGHTS = 50
      THINK = 20 # ms that a light client rests after each answer
      # The number of requests that show that the route keeps the loop, and how long each does, in seconds.
      TEACHERS = 25
      LESSON = 0.1
      ALONE = 2.0 # seconds that one burner computes when it is alone
      # `alone`, `alone_cpu`: of one burner at a time; `lights_cpu`: what as many light requests need when they are
      # alone. Times are microseconds.
      Turn = Struct.new(:worst, :p99, :p50, :lights, :health_worst, :health_p99, :alone, :burning, :lost, :cpu,
                        :alone_cpu, :lights_cpu, keyword_init: true)

      # @param burners [Integer] at once
      def initialize(burners: 1, **options)
        @burners = burners
        super(**options)
      end

      def name = "hog#{@burners}"
      def title = "#{@burners} requests compute #{seconds} s each, #{LIGHTS} light clients go on: their latency"

      private

      def settings
        threads = [@burners * 2, 5].max
        [
          abaca("fiber"),
          abaca("thread #{threads}", mode: :thread, threads: [0, threads]),
          abaca("fiber, quantum 20, no spare", quantum: 20, spare_loops: 0),
          abaca("hybrid #{threads}, promoted", mode: :hybrid, threads: [0, threads]),
          ["puma", { threads: 5 }], ["puma", { threads: 64 }], ["falcon", {}], ["iodine", { threads: 4 }],
          ["itsi", { threads: 64 }], ["itsi", { fibers: true }]
        ]
      end

      def abaca(words, **settings) = ["abaca", { settings: { liveness: HEALTH, **settings } }, "abaca #{words}"]

      def compared_figures = %i[p99 health_p99 burning cpu]

      def columns
        ["worst ms", "p99 ms", "p50 ms", "requests", "health worst ms", "health p99 ms", "burners slower by",
         "CPU more", "for lights", "lost"]
      end

      def cells(turns)
        worst, p99, p50, health_worst, health_p99 = %i[worst p99 p50 health_worst health_p99].map do |field|
          milliseconds(median(turns, field))
        end
        loss = median(turns, :burning).fdiv(Statistics.median(turns.flat_map(&:alone)) * @burners) - 1
        [worst, p99, p50, median(turns, :lights).round, health_worst, health_p99, percent(loss),
         *shares(turns).map { |share| percent(share) }, turns.sum(&:lost)]
      end

      # The server's CPU time compared with that of the burners alone: by how much it is more, and how much of that
      # the light requests need anyway. The rest is the price of passing on the lock. Waiting for a CPU does not
      # count.
      def shares(turns)
        found = turns.map do |turn|
          burners = Statistics.median(turn.alone_cpu) * @burners
          [turn.cpu.fdiv(burners) - 1, turn.lights_cpu.fdiv(burners)]
        end
        found.transpose.map { |shares| Statistics.median(shares) }
      end

      def percent(share) = "#{(share * 100).round(1)} %"

      def seconds = @quick ? 0.5 : ALONE

      # How far this Ruby counts in that time, on the CPU that the server has.
      def count
        @count ||= begin
          code = "n = 0; t = Process.clock_gettime(1); n += 1 while n < 5_000_000; " \
                 "print 5_000_000 / (Process.clock_gettime(1) - t)"
          command = [*(%w[taskset -c 0] if @pinned), *@ruby.command("-e", code)]
          text, status = Open3.capture2(Child::CLEAN, *command, chdir: ROOT)
          status.success? ? (Float(text) * seconds).round : raise(Unavailable, "Ruby #{@ruby.name} does not count")
        end
      end

      # In hybrid mode the route has to move first: shorter requests, one after another, keep the loop for twice the
      # default threshold each.
      def teach(entry)
        return unless entry.options.dig(:settings, :mode) == :hybrid

        answers = Array.new(TEACHERS) { Probe.get(port: entry.port, path: "/burn/#{(count * LESSON / seconds).round}") }
        raise Failed, "the burners' route did not move to threads" unless answers.last&.body == "burnt by thread"
      end

      # A burner is alone before and after: machines are not equally fast at all times.
      def measure(entry)
        teach(entry)
        lights, lights_cpu = metered(entry) { steady(entry, burners: 0, connections: LIGHTS, health: HEALTH) }
        before = metered(entry) { steady(entry, burners: 1) }
        found, cpu = metered(entry) { steady(entry, burners: @burners, connections: LIGHTS, health: HEALTH) }
        alone, alone_cpu = [before, metered(entry) { steady(entry, burners: 1) }].transpose
        alone = alone.map { |figures| figures.fetch(:burning) }
        raise Failed, "no light request was answered" if lights[:answered].zero?
        raise Failed, "died: #{entry.child.last_words}" unless entry.child.running?
        raise Failed, "#{found[:burned]} of #{@burners} burners were answered" unless found[:burned] == @burners
        raise Failed, "a burner alone was not answered" if alone.any?(&:zero?)

        Turn.new(worst: worst(found, :light), p99: found[:light_p99], p50: found[:light_p50], lights: found[:light],
                 health_worst: worst(found, :health), health_p99: found[:health_p99],
                 alone: alone, burning: found[:burning], lost: found[:lost] + found[:unanswered], cpu: cpu,
                 alone_cpu: alone_cpu, lights_cpu: lights_cpu * found[:answered] / lights[:answered])
      end

      # One that got no answer while they burnt has waited all the time.
      def worst(found, kind) = found[kind].zero? ? found[:burning] : found[:"#{kind}_worst"]

      # What the block returns, and the server's CPU time meanwhile.
      def metered(entry)
        meter = CpuMeter.new(entry.child.pid).start
        [yield, meter.stop.nanoseconds / 1000]
      end

      def steady(entry, burners:, connections: 0, health: "")
        limit = burners.zero? ? ALONE : 10 + (seconds * burners * 4)
        found = figures("steady", "port=#{entry.port}", "connections=#{connections}", "seconds=#{limit.ceil}",
                        "think=#{THINK}", "burners=#{burners}", "burn=/burn/#{count}", "health=#{health}",
                        limit: limit + 10)
        raise Failed, "#{found[:wrong]} of #{found[:answered]} answers were not 200" if found[:wrong].positive?

        found
      end
    end
  end
end
