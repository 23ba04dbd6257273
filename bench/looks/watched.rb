# frozen_string_literal: true

require "json"
require "net/http"
require_relative "../servers/catalog"

module Bench
  class Looks
    # A server with a control server, and whoever looks at it.
    class Watched
      APP = File.join(DIR, "apps", "looks.ru")
      TOKEN = "secret"
      START = 30 # seconds
      PATIENCE = 20 # seconds for one answer
      FULL = 10_000 # requests in the app at once

      # Starts a server; the block has it, and then it ends.
      #
      # @param name [String] of the log
      # @param workers [Integer]
      # @param cpu [Integer, nil] the CPU to pin the server and its watch to
      def self.open(name, **options)
        watched = new(name, **options)
        yield watched
      ensure
        watched&.stop
      end

      # @return [Integer]
      attr_reader :port, :pid, :watch

      def initialize(name, workers: 0, cpu: nil)
        abaca, = Catalog.pick(%w[abaca])
        abaca.prepare
        @port, @control = Array.new(2) { Ports.free }
        command = abaca.command(port: @port, app: APP, options: options(workers))
        @child = Child.new(command, name: "looks-#{name}", cpu: cpu, files: Files.raise_limit)
        @pid = @child.pid
        @child.wait_ready(seconds: START) { Probe.get(port: @port, path: "/hello", seconds: 1)&.status == 200 }
        await_workers(workers) if workers.positive?
        @watch = find_watch
      end

      # An answer of the watch, read whole.
      #
      # @param fields [Hash] of the request
      # @return [Net::HTTPResponse]
      # @raise [Failed] if it is none, or not a 200
      def ask(path, **fields)
        answer = request(Net::HTTP::Get.new(path, heading(**fields)))
        answer.code == "200" ? answer : raise(Failed, "#{path}: #{answer.code} #{answer.body}")
      end

      # The stream of the dashboard that shows requests.
      #
      # @yieldparam event [#call] waits for the next one
      def stream
        socket = TCPSocket.new("127.0.0.1", @control)
        socket.write("GET /live?screen=requests HTTP/1.1\r\nHost: 127.0.0.1:#{@control}\r\nCookie: #{cookie}\r\n\r\n")
        head = socket.gets("\r\n\r\n").to_s
        raise Failed, "no stream: #{head}" unless head.match?(%r{\AHTTP/1\.1 200 .*text/event-stream}mi)

        yield(-> { socket.gets("\n\n") or raise Failed, "the stream has ended" })
      ensure
        socket&.close
      end

      # @return [String] a browser's, which has followed a link
      def cookie
        @cookie ||= begin
          link = JSON.parse(request(Net::HTTP::Post.new("/link", heading)).body).fetch("path")[/[^#]+/]
          request(Net::HTTP::Get.new(link))["set-cookie"][/\A[^;]+/]
        end
      end

      # @return [Array<String>] `abaca top` for this server
      def top(*flags)
        Ruby.here.command("-I#{File.join(ROOT, "lib")}", Catalog::Abaca::EXE, "top", "--json", *flags, @pid.to_s)
      end

      # @return [Reading] what the watch has used of the CPU meanwhile
      def watch_used
        meter = CpuMeter.new(@watch).start
        yield
        meter.stop
      end

      # Has this many requests in flight while the block runs.
      def crowd(count)
        command = [Compiler.program("clients/burst.c"), @port.to_s, count.to_s, "3600"]
        clients = Child.new(command, name: "looks-crowd", files: Files.raise_limit)
        there = -> { JSON.parse(ask("/stats").body).fetch("busy_threads") >= count }
        Clock.wait_until(seconds: START, every: 0.2, &there) or raise Failed, "not #{count} requests in flight"
        yield
      ensure
        clients&.stop
      end

      # Nothing that still runs in it is waited for.
      def stop
        Process.kill(:KILL, @pid) if @child&.running?
      rescue Errno::ESRCH
        nil
      ensure
        @child&.wait(seconds: START)
      end

      private

      def options(workers)
        ["--max-fibers", FULL.to_s, "--control-url", "tcp://127.0.0.1:#{@control}", "--control-token", TOKEN,
         *(["-w", workers.to_s] if workers.positive?)]
      end

      def heading(**fields) = { "Authorization" => "Bearer #{TOKEN}", **fields }

      def request(what)
        Net::HTTP.start("127.0.0.1", @control, read_timeout: PATIENCE) { |http| http.request(what) }
      rescue SystemCallError, IOError, Timeout::Error => e
        raise Failed, "#{what.path}: #{e.message}"
      end

      def await_workers(count)
        booted = -> { JSON.parse(ask("/stats").body).fetch("booted_workers") == count }
        Clock.wait_until(seconds: START, every: 0.1, &booted) or raise Failed, "not #{count} workers"
      end

      # It is no child of the server's.
      def find_watch
        name = /\Aabaca: watch: #{@pid}\b/
        found = Dir["/proc/[0-9]*/cmdline"].find { |path| name.match?(CpuMeter.read(path).scrub) }
        found ? found[/\d+/].to_i : raise(Failed, "no watch")
      end
    end
  end
end
