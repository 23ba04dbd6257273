# frozen_string_literal: true

module Bench
  module Modes
    # Clients that leave in the middle of a `sleep 3`: when do their requests end?
    class Leave < Row
      CLIENTS = 100
      THREADS = CLIENTS + 5
      SOON = 0.1 # seconds
      PATIENCE = 10
      Turn = Struct.new(:ended, :soon, :earliest, :latest, keyword_init: true)

      def title = "#{CLIENTS} clients leave half a second into `sleep 3`"

      private

      def settings
        [abaca("fiber"), abaca("thread #{THREADS}", mode: :thread, threads: [0, THREADS]),
         ["puma", { threads: THREADS }], ["falcon", {}], ["iodine", { threads: THREADS }],
         ["itsi", { threads: THREADS }], ["itsi", { fibers: true }]]
      end

      def abaca(words, **settings)
        ["abaca", { settings: { cancel_on_disconnect: true, **settings } }, "abaca #{words}"]
      end

      def compared_figures = %i[latest]

      def columns = ["ended", "within #{(SOON * 1000).round} ms", "first ms", "last ms"]

      def cells(turns)
        [turns.sum(&:ended), turns.sum(&:soon), *%i[earliest latest].map do |field|
          median(turns, field)&.*(1000)&.round
        end]
      end

      def measure(entry)
        sockets = Array.new(CLIENTS) { TCPSocket.new("127.0.0.1", entry.port) }
        sockets.each { |socket| socket.write("GET /leave HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n") }
        sleep 0.5
        gone = Clock.now
        sockets.each(&:close)
        times = ends(entry).map { |time| time - gone }
        Turn.new(ended: times.size, soon: times.count { |time| time <= SOON }, earliest: times.min,
                 latest: times.max)
      rescue SystemCallError => e
        raise Failed, e.message
      end

      # Both processes share the clock.
      def ends(entry)
        times = []
        Clock.wait_until(seconds: PATIENCE, every: 0.1) do
          answer = Probe.get(port: entry.port, path: "/left", seconds: 1)
          times.concat(answer&.body.to_s.split.map { |word| Float(word) })
          times.size >= CLIENTS
        end
        times
      end
    end
  end
end
