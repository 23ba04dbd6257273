# frozen_string_literal: true

require_relative "../screen"

module Abaca
  class Sight
    module Screens
      # A row for each thing that requests wait for: a database, an upstream, a pool, a lock.
      class Waits < Screen
        describe :waits, "Waits", [
          words(:kind, "KIND", rank: 0), words(:target, "TARGET", wide: true, rank: 0),
          figure(:now, "NOW", :count, rank: 0), figure(:mean, "MEAN", :mean), figure(:rate, "R/S", :rate),
          figure(:p50, "P50", :seconds), figure(:p99, "P99", :seconds), figure(:longest, "LONGEST", :seconds, rank: 0)
        ], sort: :now

        def note = "a row without target: all of the kind"

        private

        def all = [*kinds, *targets]

        def tallies = @tallies ||= workers.flat_map { |worker| worker.in_flight[:waits] }

        def kinds
          means = @look.means
          now = tallies.group_by(&:first)
          names = [*now.keys, *means.select { |_, mean| mean >= 0.05 }.keys].uniq - Page::Sums::RUNS
          names.map do |kind|
            found = now.fetch(kind, [])
            cells = { kind:, target: nil, now: found.sum { |one| one[2] }, mean: means.fetch(kind, 0.0), **ended(kind),
                      longest: found.map { |one| one[3] }.max }
            Row.new(id: kind.to_s, cells:)
          end
        end

        # Waits that have ended are counted for each kind, or for most of them.
        def ended(kind)
          latency = @look.latency(kind, workers:)
          { rate: @look.seconds.positive? ? latency.size / @look.seconds : nil, p50: latency.quantile(0.5),
            p99: latency.quantile(0.99) }
        end

        def targets
          known = tallies.select { |one| one[1] && !Page::Sums::RUNS.include?(one[0]) }
          known.group_by { |one| one.first(2) }.map do |(kind, target), found|
            cells = { kind:, target:, now: found.sum { |one| one[2] }, longest: found.map { |one| one[3] }.max }
            Row.new(id: "#{kind} #{target}", cells:)
          end
        end
      end
    end
  end
end
