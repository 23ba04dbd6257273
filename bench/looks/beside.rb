# frozen_string_literal: true

module Bench
  class Looks
    # What light clients notice of somebody who looks ten times a second. The watch runs on the server's processor, or
    # where the kernel wants it.
    class Beside
      # What is done ten times a second. For the last two, the process itself is asked.
      Look = Struct.new(:name, :path, keyword_init: true)
      LOOKS = [
        Look.new(name: "/requests", path: "/requests"),
        Look.new(name: "/requests?most=500", path: "/requests?most=500"), Look.new(name: "/waits", path: "/waits"),
        Look.new(name: "/loops", path: "/loops"), Look.new(name: "/metrics", path: "/metrics"),
        Look.new(name: "dashboard's stream"), Look.new(name: "abaca top"), Look.new(name: "a stranger"),
        Look.new(name: "/requests?frames=1", path: "/requests?frames=1"),
        Look.new(name: "/fibers", path: "/fibers")
      ].freeze
      QUICK = ["/requests?most=500", "/metrics", "dashboard's stream", "abaca top", "a stranger", "/fibers"].freeze
      PLACES = { "the same" => "0", "any" => nil }.freeze
      LIGHT = 50
      THINK = 20 # ms
      PAUSE = 0.1 # seconds between two looks
      STRANGER = 0.004 # seconds of computing, ten times a second
      STREAMS = 8 # have an event a second each
      TOPS = 2 # look each 0.2 s
      GOAL = 1000 # µs

      # Times in µs; `ran` and `waited` are those of the server on its processor, for a request.
      Turn = Struct.new(:p50, :p99, :worst, :ran, :waited, keyword_init: true)

      def initialize(in_flight:, rounds:, quick:, **)
        @count = in_flight
        @rounds = rounds
        @places = quick ? PLACES.slice("the same") : PLACES
        @looks = quick ? LOOKS.select { |look| QUICK.include?(look.name) } : LOOKS
        @seconds = quick ? 1 : 3
        @found = Hash.new { |hash, key| hash[key] = [] }
      end

      def run
        Watched.open("beside", cpu: 0) do |watched|
          watched.cookie
          watched.crowd(@count) do
            turn(watched) # the heap grows now, not later
            @rounds.times { |nth| round(watched, nth) }
          end
        end
      end

      # @return [String] a table
      def render
        table = Table.new(["somebody looks at", "watch on", "p50 us", "p99", "worst", "p50 more", "p99 more",
                           "worst more", "server ran us", "waited", "waited more"])
        @found.each { |(look, place), pairs| table.add(look, "CPU: #{place}", *cells(pairs)) }
        "latency of #{LIGHT} light clients beside #{@count} requests in flight, and somebody who looks ten times a " \
          "second (goal: at most #{GOAL} us more)\n\n#{table}"
      end

      # @return [Hash] for the results file
      def to_h
        turns = @found.to_h { |key, pairs| [key.join(", "), pairs.map { |pair| pair.map(&:to_h) }] }
        { row: "beside", in_flight: @count, clients: LIGHT, seconds: @seconds, turns: turns }
      end

      private

      # Each look has its own turn without it, right before or after.
      def round(watched, nth)
        @places.each do |place, cpu|
          set(watched.watch, cpu || "0-#{Etc.nprocessors - 1}")
          warn "beside: a round, watch on CPU: #{place}"
          @looks.each do |look|
            turns = [-> { turn(watched) }, -> { looking(watched, look) { turn(watched) } }]
            pair = nth.even? ? turns.map(&:call) : turns.reverse.map(&:call).reverse
            @found[[look.name, place]] << pair
          end
        end
      end

      def set(pid, cpus)
        _, status = Open3.capture2e("taskset", "-a", "-p", "-c", cpus, pid.to_s)
        raise Failed, "taskset" unless status.success?
      end

      def turn(watched)
        before = scheduled(watched.pid)
        found = Client.figures("steady", "port=#{watched.port}", "connections=#{LIGHT}", "think=#{THINK}",
                               "seconds=#{@seconds + 5}", "burners=1", "burn=/pause/#{@seconds}",
                               prefix: %w[taskset -c 1])
        raise Failed, "answers are missing, or wrong" if (found[:wrong] + found[:lost]).positive?

        ran, waited = scheduled(watched.pid).zip(before).map { |now, then_| (now - then_) / 1000.0 / found[:answered] }
        Turn.new(p50: found[:light_p50], p99: found[:light_p99], worst: found[:light_worst], ran: ran.round(2),
                 waited: waited.round(2))
      end

      # Nanoseconds in which its threads ran, and in which they could have, and another one had the processor.
      def scheduled(pid)
        Dir.glob("/proc/#{pid}/task/*/schedstat").map { |path| CpuMeter.read(path).split.first(2).map(&:to_i) }
           .transpose.map(&:sum)
      end

      # In processes of their own, on the clients' processor, unless they are to be where the watch is.
      def looking(watched, look, &)
        case look.name
        when "dashboard's stream" then many(STREAMS, cpu: "1", work: -> { watch_stream(watched) }, &)
        when "a stranger" then many(1, cpu: "0", work: method(:compute), &)
        when "abaca top"
          command = watched.top("-n", "0", "-d", "0.2")
          many(TOPS, cpu: "1", work: -> { exec(Child::CLEAN, *command, out: File::NULL) }, &)
        else many(1, cpu: "1", work: -> { pace { watched.ask(look.path) } }, &)
        end
      end

      def many(count, cpu:, work:)
        pids = Array.new(count) do
          fork do
            set(Process.pid, cpu)
            work.call
          rescue Failed, SystemCallError, IOError => e
            warn "beside: #{e.message}"
            exit!(1)
          end
        end
        sleep 0.5 # they have begun
        yield.tap { pids.each { |pid| raise Failed, "a look failed" if Process.wait(pid, Process::WNOHANG) } }
      ensure
        pids.to_a.each { |pid| end_of(pid) }
      end

      def end_of(pid)
        Process.kill(:KILL, pid)
        Process.wait(pid)
      rescue Errno::ESRCH, Errno::ECHILD
        nil
      end

      def watch_stream(watched) = watched.stream { |event| loop { event.call } }

      def compute
        pace do
          stop = Clock.now + STRANGER
          nil while Clock.now < stop
        end
      end

      def pace
        due = Clock.now
        loop do
          yield
          due += PAUSE
          left = due - Clock.now
          left.positive? ? sleep(left) : due = Clock.now
        end
      end

      def cells(pairs)
        alone, beside = pairs.transpose
        times = %i[p50 p99 worst].map { |field| Statistics.median(beside.map(&field)).round }
        more = %i[p50 p99 worst].map { |field| difference(pairs, field).round }
        [*times, *more, Statistics.median(beside.map(&:ran)).round(1), Statistics.median(alone.map(&:waited)).round(1),
         difference(pairs, :waited).round(1)]
      end

      def difference(pairs, field)
        Statistics.median(pairs.map { |alone, beside| beside[field] - alone[field] })
      end
    end
  end
end
