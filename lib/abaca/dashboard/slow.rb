# frozen_string_literal: true

module Abaca
  class Dashboard
    # A row for each request that has ended and was kept: it was slow, it failed, or it was taken as a sample.
    class Slow < Sight::Screen
      describe :slow, "Slow and failed", [
        words(:ended_at, "ENDED", unit: :time, rank: 0), figure(:age, "TOOK", :seconds, rank: 0),
        figure(:worker, "W", :count, rank: 2), figure(:status, "STATUS", :id), words(:reasons, "WHY", rank: 3),
        words(:method, "METHOD"), words(:path, "PATH", wide: true, rank: 0), words(:route, "ROUTE", rank: 4),
        words(:most, "MOST OF IT", rank: 2), words(:client, "CLIENT", rank: 4)
      ], sort: :ended_at

      # Where the time of one of them goes: its detail.
      def note = "the last 200 of each worker that were slow or failed, and one in a hundred"

      private

      # Those of workers that are no more, too.
      def all
        workers = @look.now.workers.select { |one| @worker.nil? || one.index == @worker }
        workers.flat_map { |worker| worker.slot.kept.map { |request| row(worker, request) } }
      end

      def row(worker, request)
        state, time = request[:sums].max_by(&:last)
        cells = { ended_at: request[:ended_at], age: request[:age], worker: worker.index, status: request[:status],
                  reasons: request[:reasons].join(", "), method: request[:method], path: request[:path],
                  route: request[:route], most: state && "#{state} #{Sight::Units.seconds(time)}",
                  client: request[:peer] }
        Sight::Row.new(id: "#{worker.index}.#{request[:id]}", cells:, source: [worker, request[:id]],
                       mark: request[:reasons].include?(:failed) ? :alarm : nil)
      end
    end
  end
end
