# frozen_string_literal: true

require "net/http"
require "socket"
require "timeout"
require_relative "../support/pick"

module Bench
  # The rows of the comparison: thread-style code that uses nothing but core and standard library, so
  # that it means the same on threads and on every scheduler. Each method takes a runner and a scale
  # (1.0 is the full size), starts its tasks and returns the number of operations; `check` raises when
  # one of them did not do what it should.
  module Workloads
    # `figure` is :cpu where the wall time is that of the sleeps, and otherwise nil.
    Row = Struct.new(:name, :title, :figure, keyword_init: true)

    ROWS = [
      Row.new(name: "spawn", title: "100,000 tasks that do nothing"),
      Row.new(name: "spawn_sleep0", title: "100,000 tasks with sleep(0), 10,000 alive"),
      Row.new(name: "pipe", title: "pipe round trip, 50 pairs x 2,000"),
      Row.new(name: "tcp", title: "TCP echo round trip, 50 connections x 1,000"),
      Row.new(name: "socketpair", title: "socketpair round trip, 50 pairs x 1,000"),
      Row.new(name: "queue", title: "Queue round trip between two tasks"),
      Row.new(name: "mutex", title: "Mutex hand-over with sleep(0), 100 x 100"),
      Row.new(name: "sleeps", title: "10,000 x sleep 0.1 at once (CPU)", figure: :cpu),
      Row.new(name: "cross_thread", title: "Queue round trip with a plain thread"),
      Row.new(name: "timeout", title: "Timeout.timeout(5) { q.pop }"),
      Row.new(name: "http", title: "Net::HTTP.get, 50 clients"),
      Row.new(name: "http_keep", title: "Net::HTTP kept alive, 50 clients"),
      Row.new(name: "fan_out", title: "fan out to 10 sleeping tasks and gather (CPU)", figure: :cpu),
      Row.new(name: "timeouts", title: "cascading timeouts, 3 deep (CPU)", figure: :cpu)
    ].freeze

    # What a workload did, for the figures and to prove that it did it.
    class Work
      attr_reader :operations

      def initialize(operations, &proof)
        @operations = operations
        @proof = proof
      end

      # @raise [RuntimeError] when something is missing
      def check
        done = @proof.call
        raise "did #{done} of #{operations} operations" unless done == operations
      end
    end

    SMALL = "STATUS\n"
    ECHO = "x" * 64

    module_function

    # See Bench.pick.
    def pick(names) = Bench.pick(ROWS, names, "row")

    def spawn(runner, scale)
      count = (100_000 * scale).to_i
      done = 0
      count.times { runner.start { done += 1 } }
      Work.new(count) { done }
    end

    # Ten waves, one when the one before has ended.
    def spawn_sleep0(runner, scale)
      alive = (10_000 * scale).to_i
      done = 0
      ended = Queue.new
      runner.start do
        10.times do
          left = alive
          alive.times do
            runner.start do
              sleep(0)
              done += 1
              ended << true if (left -= 1).zero?
            end
          end
          ended.pop
        end
      end
      Work.new(10 * alive) { done }
    end

    def pipe(runner, scale)
      ping_pong(runner, pairs: 50, rounds: (2_000 * scale).to_i) do
        there = IO.pipe
        back = IO.pipe
        [[there.last, back.first], [back.last, there.first]]
      end
    end

    def socketpair(runner, scale)
      ping_pong(runner, pairs: 50, rounds: (1_000 * scale).to_i) do
        near, far = UNIXSocket.pair
        [[near, near], [far, far]]
      end
    end

    # The block gives two ends, each of them something to write to and something to read from.
    def ping_pong(runner, pairs:, rounds:)
      done = 0
      pairs.times do
        (near_out, near_in), (far_out, far_in) = yield
        runner.start do
          rounds.times do
            far_in.readpartial(64)
            far_out.write(SMALL)
          end
          [far_out, far_in].uniq.each(&:close)
        end
        runner.start do
          rounds.times do
            near_out.write(SMALL)
            done += 1 if near_in.readpartial(64) == SMALL
          end
          [near_out, near_in].uniq.each(&:close)
        end
      end
      Work.new(pairs * rounds) { done }
    end

    def tcp(runner, scale)
      rounds = (1_000 * scale).to_i
      done = 0
      server = TCPServer.new("127.0.0.1", 0)
      port = server.addr[1]
      runner.start do
        50.times do
          socket = server.accept
          runner.start { echo(socket) }
        end
        server.close
      end
      50.times do
        runner.start do
          socket = TCPSocket.new("127.0.0.1", port)
          rounds.times do
            socket.write(ECHO)
            done += 1 if socket.readpartial(256) == ECHO
          end
          socket.close
        end
      end
      Work.new(50 * rounds) { done }
    end

    def echo(socket)
      loop { socket.write(socket.readpartial(256)) }
    rescue EOFError
      socket.close
    end

    def queue(runner, scale)
      count = (50_000 * scale).to_i
      there = Queue.new
      back = Queue.new
      done = 0
      runner.start { count.times { back << there.pop } }
      runner.start do
        count.times do |i|
          there << i
          done += 1 if back.pop == i
        end
      end
      Work.new(count) { done }
    end

    def mutex(runner, scale)
      rounds = (100 * scale).ceil
      mutex = Mutex.new
      done = 0
      inside = 0
      100.times do
        runner.start do
          rounds.times do
            mutex.synchronize do
              done += 1 if (inside += 1) == 1
              sleep(0)
              inside -= 1
            end
          end
        end
      end
      Work.new(100 * rounds) { done }
    end

    def sleeps(runner, scale)
      count = (10_000 * scale).to_i
      done = 0
      count.times { runner.start { sleep(0.1) && done += 1 } }
      Work.new(count) { done }
    end

    def cross_thread(runner, scale)
      count = (20_000 * scale).to_i
      there = Queue.new
      back = Queue.new
      done = 0
      other = Thread.new { count.times { back << there.pop } }
      runner.start do
        count.times do |i|
          there << i
          done += 1 if back.pop == i
        end
        other.join
      end
      Work.new(count) { done }
    end

    def timeout(runner, scale)
      count = (50_000 * scale).to_i
      queue = Queue.new
      wanted = Queue.new
      done = 0
      runner.start { count.times { queue << wanted.pop } }
      runner.start do
        count.times do |i|
          wanted << i
          done += 1 if Timeout.timeout(5) { queue.pop } == i
        end
      end
      Work.new(count) { done }
    end

    def http(runner, scale)
      rounds = (40 * scale).ceil
      done = 0
      50.times do
        runner.start { rounds.times { done += 1 if Net::HTTP.get("127.0.0.1", "/", upstream).bytesize == 1200 } }
      end
      Work.new(50 * rounds) { done }
    end

    def http_keep(runner, scale)
      rounds = (100 * scale).ceil
      done = 0
      50.times do
        runner.start do
          Net::HTTP.start("127.0.0.1", upstream) do |session|
            rounds.times { done += 1 if session.get("/").body.bytesize == 1200 }
          end
        end
      end
      Work.new(50 * rounds) { done }
    end

    # The port of the C server that the benchmark has started for this.
    def upstream = @upstream ||= Integer(ENV.fetch("UPSTREAM"))

    def fan_out(runner, scale)
      rounds = (50 * scale).ceil
      done = 0
      20.times do
        runner.start do
          rounds.times do |i|
            answers = Queue.new
            10.times { |k| runner.start { (sleep 0.001) && (answers << (i + k)) } }
            done += 1 if Array.new(10) { answers.pop }.sum == (10 * i) + 45
          end
        end
      end
      Work.new(20 * rounds) { done }
    end

    # The innermost of three expires.
    def timeouts(runner, scale)
      rounds = (20 * scale).ceil
      done = 0
      100.times do
        runner.start do
          rounds.times do
            Timeout.timeout(5) { Timeout.timeout(3) { Timeout.timeout(0.005) { sleep(1) } } }
          rescue Timeout::Error
            done += 1
          end
        end
      end
      Work.new(100 * rounds) { done }
    end
  end
end
