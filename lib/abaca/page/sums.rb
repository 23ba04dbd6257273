# frozen_string_literal: true

module Abaca
  class Page
    # What the slots of a page say together: lists of all of them, each entry with its `slot:`, and sums where sums
    # mean something. Each look goes through all slots; it asks no process.
    module Sums
      # How the values of two slots for one moment become one. Percentiles: the worst one.
      WORST = %i[p50 p95 p99].freeze
      MOMENT = %i[tick at].freeze
      # States in which a request waits for nothing but its turn.
      RUNS = %i[run sched gvl gc].freeze
      private_constant :WORST, :MOMENT

      # @param most [Integer, nil] no more than so many
      # @param waits [Boolean] with the last 32 waits of each
      # @return [Array<Hash>] the requests in flight, the oldest first (Slot#requests)
      def requests(most: nil, waits: false)
        all = in_slots { |slot| slot.requests(most: most, waits: waits) }.sort_by { |request| -request[:age] }
        most ? all.first(most) : all
      end

      # @return [Hash{Symbol => Integer}] how many requests are in each state
      def states = map(&:states).reduce({}) { |all, one| add(all, one) }

      # @return [Array<Array>] what requests wait for, of each slot: a state, the other end, how many, and the longest
      #   in seconds; without those that run, or are about to
      def waiting = flat_map { |slot| slot.tally[:waits] }.reject { |wait| RUNS.include?(wait.first) }

      # @return [Array<Hash>] Slot#loops
      def loops = in_slots(&:loops)

      # @return [Array<Hash>] Slot#events, the newest first
      def events = in_slots(&:events).sort_by { |event| event[:at] }.reverse

      # @return [Array<Hash>] Slot#kept, the newest first
      def kept = in_slots(&:kept).sort_by { |request| request[:ended_at] }.reverse

      # @return [Array<Hash>] Slot#routes, those of one name added
      def routes = added(:routes, %i[route])

      # @return [Array<Hash>] Slot#pools
      def pools = in_slots(&:pools)

      # @return [Array<Hash>] Slot#clients, those of one address added, those with most requests first
      def clients = added(:clients, %i[address]).sort_by { |client| -client[:requests] }

      # @return [Array<Hash>] Slot#series, those of one kind, route, method and status added
      def series(buckets: true) = times(buckets)

      # @param width [Symbol] :seconds or :tens
      # @param most [Integer, nil] of the last ticks only so many
      # @return [Array<Hash>] Slot#history, the records of one moment added, but for percentiles: of these the worst
      def history(width, most: nil)
        flat_map { |slot| slot.history(width, most: most) }.group_by { |record| record[:tick] }.sort.map do |_, some|
          some.reduce { |all, one| all.merge(one) { |key, a, b| one_of(key, a, b) } }
        end
      end

      # @return [Hash{Symbol => Object}] Slot#totals, added: they never fall
      def totals = map(&:totals).reduce { |all, one| add(all, one) }

      private

      def in_slots
        flat_map { |slot| yield(slot).each { |entry| entry[:slot] = slot.index } }
      end

      # What `method` says of all slots, entries with the same keys added.
      def added(method, keys)
        flat_map(&method).group_by { |entry| entry.values_at(*keys) }
                         .map { |_, some| some.reduce { |all, one| all.merge(add(all, one), one.slice(*keys)) } }
      end

      # Numbers are added, and Hashes of numbers.
      def add(all, one)
        all.merge(one) do |_, a, b|
          case a
          when Hash then add(a, b)
          when Numeric then a + b
          else b
          end
        end
      end

      def one_of(key, one, other)
        return one if MOMENT.include?(key)

        WORST.include?(key) ? [one, other].max : one + other
      end
    end
  end
end
