# frozen_string_literal: true

require_relative "units"

module Abaca
  class Sight
    # Who holds a loop now, or a whole worker.
    class Stalls
      # Seconds without a heartbeat after which a worker hangs.
      BEAT = 3.0
      # An event tells the line of the app a little after the stall has begun.
      NEAR = 2.0
      # A process has not said where its requests are.
      PENDING = "pending"
      private_constant :BEAT, :NEAR

      # `worker` is its number, `age` seconds; `verb` and `path` are those of the request that holds the loop, `text`
      # what else is known, `row` the request.
      Stall = Struct.new(:worker, :age, :verb, :path, :text, :id, :row, keyword_init: true) do
        # @param ascii [Boolean] whether only ASCII may be shown
        # @return [String] safe to show
        def line(ascii: false)
          words = ["STALL", "worker #{worker}", Units.text(age, :seconds), [verb, path].compact.join(" "), text]
          words.reject { |word| word.to_s.empty? }.map { |word| Text.safe(word, ascii:) }.join("  ")
        end
      end

      # @param look [Look]
      def initialize(look)
        @look = look
      end

      # @return [Array<Stall>] the longest first
      def to_a
        @look.now.there.flat_map { |worker| [*loops(worker), *silence(worker)] }.sort_by { |stall| -stall.age }
      end

      private

      def loops(worker)
        held = worker.loops.select { |one| one[:state] == :stalled }
        held.map do |one|
          request = one[:request] && @look.now.request(worker, one[:request])
          others = worker.loops.count { |other| %i[busy idle].include?(other[:state]) }
          rest = "#{others} other #{others == 1 ? 'loop goes' : 'loops go'} on" if others.positive?
          Stall.new(worker: worker.index, age: one[:since], verb: request&.fetch(:method), id: request&.fetch(:id),
                    path: request&.fetch(:path), text: [place(worker, request), rest].compact.join("  "), row: request)
        end
      end

      # The line of the app, as the process says it now; else if the log has found it by now.
      def place(worker, request)
        return unless request

        now = @look.places["#{worker.slot.index}.#{request[:id]}"]
        return now if now && now != PENDING

        event = @look.now.events.find do |one|
          one[:kind] == :stall && one[:slot] == worker.slot.index && one[:request] == request[:id]
        end
        event&.fetch(:text)
      end

      def silence(worker)
        return if worker.state != :serving || worker.beat_age.to_f < BEAT

        why = "process #{worker.pid} #{@look.stopped?(worker.pid) ? 'is stopped' : 'gives no heartbeat'}"
        [Stall.new(worker: worker.index, age: worker.beat_age, text: why)]
      end
    end
  end
end
