# frozen_string_literal: true

require_relative "../version"

module Abaca
  class Control
    # Figures in Puma's shape, which tools read, and Abaca's own below `abaca`; docs/control.md says how Puma's are
    # computed here.
    module PumaStats
      # The layout of `abaca`: keys are only added.
      LAYOUT = 1
      # What a slot says of a worker that has one.
      ALIVE = %i[booting serving draining].freeze
      private_constant :LAYOUT

      class << self
        # @param figures [Hash{Symbol => Object}] as of Server#stats
        # @param places [Integer] requests that may be in the app at once
        # @param started_at [Time]
        # @return [Hash{Symbol => Object}] of a single process
        def single(figures, places:, started_at:)
          { started_at: time(started_at), **counters(figures, places), versions:, abaca: own(figures) }
        end

        # @param page [Page] that the master shares with its workers: nobody is asked, and nobody has to answer
        # @param places [Integer] requests that may be in the app of a worker at once
        # @param phase [Integer] of the cluster; a worker of another one is old
        # @param started_at [Time] of the master
        # @param numbers [Integer] how many numbers workers may have: slots beyond are second ones of the same
        # @return [Hash{Symbol => Object}] of a cluster
        def cluster(page, places:, phase:, started_at:, numbers: page.size)
          workers = page.select { |slot| ALIVE.include?(slot.state) }.map { |slot| worker(slot, places, numbers) }
          workers.sort_by! { |worker| worker[:index] }
          { started_at: time(started_at), workers: workers.size, phase:,
            booted_workers: workers.count { |worker| worker[:booted] },
            old_workers: workers.count { |worker| worker[:phase] != phase },
            worker_status: workers, versions:, abaca: own(page.sums) }
        end

        # @param stats [Hash{Symbol => Object}] of a single process or a cluster
        # @param pid [Integer] of a single process
        # @return [Hash{Symbol => Object}] its workers; a single process is one
        def workers(stats, pid: Process.pid)
          { v: LAYOUT, workers: stats.fetch(:worker_status) { [only_worker(stats, pid)] } }
        end

        private

        def worker(slot, places, numbers)
          state = slot.state
          age = slot.beat_age
          figures = slot.figures
          booted = state != :booting
          { started_at: time(slot.started_at), pid: slot.pid, index: slot.index % numbers,
            phase: slot.phase, booted:,
            last_checkin: time(age && (Time.now - age)), last_status: booted ? counters(figures, places) : {},
            abaca: { state:, **figures } }
        end

        def only_worker(stats, pid)
          { started_at: stats[:started_at], pid:, index: 0, phase: 0, booted: true,
            last_checkin: time(Time.now), last_status: stats.except(:started_at, :versions, :abaca),
            abaca: { state: :serving, **stats[:abaca].except(:v, :version) } }
        end

        def counters(figures, places)
          in_app, waiting, requests = figures.values_at(:in_app, :waiting, :requests)
          { backlog: waiting, running: most(figures, places), pool_capacity: [places - in_app, 0].max,
            busy_threads: in_app + waiting, io_threads: figures[:slow], max_threads: places,
            requests_count: requests }.compact
        end

        # The most fibers and threads that were in use at once, or what is in use now where nobody has noted that.
        def most(figures, places)
          fibers = figures.dig(:fiber_pool, :high_water) || 0
          threads = figures.dig(:thread_pool, :threads) || 0
          in_app = figures[:in_app]
          (fibers + threads).clamp(in_app, [in_app, places].max)
        end

        def own(figures) = { v: LAYOUT, version: VERSION, **figures }

        def versions
          { puma: VERSION,
            ruby: { engine: RUBY_ENGINE, version: RUBY_VERSION, patchlevel: RUBY_PATCHLEVEL } }
        end

        def time(value) = value&.getutc&.strftime("%FT%TZ")
      end
    end
  end
end
