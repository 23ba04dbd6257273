# frozen_string_literal: true

require "json"
require "socket"
require_relative "clients"
require_relative "counts"

module Bench
  class Guard
    # A server under callgrind. It gets one request at a time, each when all its threads sleep, so that each finds the
    # same turn of the loop.
    class CountedServer
      REQUESTS = 200
      # Times that so many are counted; the least of each figure remains, since accidents only add: a heartbeat, a
      # connection of others that is accepted, a standby that had fallen asleep.
      SEGMENTS = 3
      MARKS = 9 # times that two marks without a request are counted
      WARM_UP = 100
      BOOT = 300 # seconds; valgrind is slow
      STILL = 300 # seconds until all threads sleep
      LOOKS = 2 # at threads that all sleep
      # No brk while it counts.
      ENVIRONMENT = { "MALLOC_TOP_PAD_" => "67108864" }.freeze

      # @param mode [String] "fiber" or "thread"; "fiber_bare" and "thread_bare" have no page
      # @param folder [String] for callgrind's files
      # @param lib [String] the folder to load Abaca from
      # @param around [String, nil] a file that adds something to the request path (see server.rb)
      # @param rest [Numeric] seconds for which no thread has run before a request is sent
      def initialize(mode, folder:, lib:, around: nil, rest: 0)
        @profiles = File.join(folder, mode)
        @rest = rest
        @files = 0
        upstream = TCPServer.new("127.0.0.1", 0)
        start(mode, upstream.addr[1], lib, around)
        @upstream = upstream.accept
        @marks = Http1Client.new(ports.fetch(:http))
      ensure
        upstream&.close
      end

      # @return [Hash{Symbol => Integer, nil}] :http, :http2, :tls
      attr_reader :ports

      # @param requests [Integer] of a segment
      # @param segments [Integer]
      # @yieldreturn is one request, with its answer
      # @return [Counts] of one
      def count(requests: REQUESTS, segments: SEGMENTS, &request)
        @marked ||= segment { nil } # for the first time, which allocates more
        mark("/collect")
        WARM_UP.times { quiet(&request) }
        count = least(segments) { requests.times { quiet(&request) } } - least(MARKS) { nil }
        raise Failed, "the machine is too busy: marks alone cost more than requests" if count.instructions.negative?

        count.share(requests)
      end

      # Answers the app, once it waits for that.
      def answer_upstream
        raise Failed, "the app does not ask" unless @upstream.wait_readable(Client::DEADLINE)

        @upstream.readpartial(16)
        quiet { @upstream.write("!") }
      end

      # Waits until there is nothing left to do.
      #
      # @yield when all threads sleep
      def quiet
        Clock.wait_until(seconds: STILL, every: 0) { asleep? } or raise Failed, "its threads do not come to rest"
        yield
      end

      def stop
        @marks&.close
        @upstream&.close
        @child&.stop
      end

      # Nobody needs its log: all went well.
      def forget = File.delete(@child.log)

      private

      def start(mode, upstream, lib, around)
        file = "#{@profiles}.ports"
        FileUtils.rm_f(file) # of another run, with --keep
        pair = Certificate.pair(:ecdsa)
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes",
                   "--collect-systime=usec", "--callgrind-out-file=#{@profiles}", RbConfig.ruby, "-I", lib,
                   File.join(DIR, "guard", "server.rb"), mode, upstream.to_s, file, *pair.values, *around]
        environment = ENVIRONMENT.merge("LD_PRELOAD" => Compiler.library("guard/counted.c"),
                                        "GEM_PATH" => Gem.path.join(File::PATH_SEPARATOR))
        @child = Child.new(command, name: "guard-#{mode}-#{Process.pid}", env: environment)
        @child.wait_ready(seconds: BOOT) { File.exist?(file) }
        @ports = JSON.parse(File.read(file), symbolize_names: true)
      end

      def least(times, &) = Counts.least(Array.new(times) { segment(&) })

      # What the thread that runs requests does between two marks. The file before is what came before.
      def segment
        mark("/begin")
        yield
        objects = Integer(mark("/end"))
        @files += 2
        @thread ||= thread_that_counts
        Counts.read("#{@profiles}.#{@files}#{@thread}", objects)
      end

      # How the names of its files end. Another thread that has run meanwhile has files, too.
      def thread_that_counts
        files = Dir["#{@profiles}.#{@files}-*"]
        began = files.find { |path| File.binread(path).include?("guard_begin") }
        began ? began[/-\d+\z/] : raise(Failed, "no thread of the server has begun to count")
      end

      def mark(path) = quiet { @marks.get(path) }

      # Sleep, all of them, in several looks; and none has run for a while if it shall rest.
      def asleep?
        return false unless LOOKS.times.all? { states.all?("S") }
        return true if @rest.zero?

        before = switches
        sleep(@rest)
        before == switches
      end

      def states = threads("stat").map { |text| text[/\) (\S)/, 1] }

      def switches = threads("status").map { |text| text[/^voluntary_ctxt_switches:\s+(\d+)/, 1] }

      # A thread that has ended meanwhile says nothing.
      def threads(name)
        Dir["/proc/#{@child.pid}/task/*/#{name}"].map { |path| CpuMeter.read(path) }.reject(&:empty?)
      end
    end
  end
end
