# frozen_string_literal: true

require_relative "../screen"

module Abaca
  class Sight
    module Screens
      # A row for each request in the app, and for each that waits to be taken.
      class Requests < Screen
        describe :requests, "Requests", [
          figure(:age, "AGE", :seconds, rank: 0), figure(:worker, "W", :count), words(:mode, "MODE", rank: 3),
          words(:phase, "PHASE", rank: 4), words(:state, "STATE", rank: 0), words(:waits_for, "WAITS-FOR", rank: 2),
          figure(:since, "SINCE", :seconds), words(:method, "METHOD"), words(:path, "PATH", wide: true, rank: 0),
          words(:place, "PLACE", rank: 2), words(:client, "CLIENT", rank: 3)
        ], sort: :age

        # All rows are only read where the oldest are not enough.
        def total = narrowed? ? super : @look.now.states.values.sum

        private

        # Mostly there are thousands: without anything that only Ruby knows, the page writes them.
        def lines(most)
          return super if narrowed? || @look.places.any?

          @look.now.request_lines([most, MOST].min)
        end

        def narrowed? = !@filter.empty? || @worker || @sort != :age || @rising

        def all
          most = narrowed? ? nil : MOST
          workers.flat_map { |worker| @look.now.requests(worker, most:).map { |request| row(worker, request) } }
        end

        def row(worker, request)
          id = Sight.id(worker.slot.index, request[:id])
          cells = { age: request[:age], worker: worker.index, mode: request[:mode], phase: request[:phase],
                    state: request[:state], waits_for: request[:waits_for], since: request[:since],
                    method: request[:method], path: request[:path], place: @look.places[id],
                    client: request[:peer], route: request[:route] }
          Row.new(id:, cells:, source: [worker, request[:id]])
        end
      end
    end
  end
end
