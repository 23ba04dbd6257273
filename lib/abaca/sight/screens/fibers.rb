# frozen_string_literal: true

require_relative "../screen"

module Abaca
  class Sight
    module Screens
      # A row for each loop and thread that runs requests, with the one that it runs.
      class Fibers < Screen
        describe :fibers, "Fibers, loops", [
          figure(:worker, "W", :count, rank: 0), figure(:loop, "LOOP", :count, rank: 0), words(:kind, "KIND"),
          words(:state, "STATE", rank: 0), figure(:age, "FOR", :seconds, rank: 0),
          figure(:turns, "TURNS/S", :rate, rank: 2), figure(:tid, "TID", :id, rank: 3),
          words(:method, "METHOD"), words(:path, "PATH", wide: true, rank: 0)
        ], sort: :age

        private

        def all = workers.flat_map { |worker| worker.loops.map { |one| row(worker, one) } }

        def row(worker, one)
          request = one[:request] && @look.now.request(worker, one[:request])
          old = @look.earlier(worker)&.loops&.find { |other| other[:index] == one[:index] }
          turns = old && @look.seconds.positive? ? [one[:ticks] - old[:ticks], 0].max / @look.seconds : nil
          cells = { worker: worker.index, loop: one[:index], kind: one[:kind], state: one[:state], age: one[:since],
                    turns:, tid: one[:tid], method: request&.fetch(:method), path: request&.fetch(:path) }
          Row.new(id: "#{worker.slot.index}.#{one[:index]}", cells:, mark: one[:state] == :stalled ? :alarm : nil,
                  source: request && [worker, request[:id]])
        end
      end
    end
  end
end
