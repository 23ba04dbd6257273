# frozen_string_literal: true

require_relative "counted_server"
require_relative "parts"

module Bench
  class Guard
    # What is counted: a row each.
    class Rows
      # What a row shows. One that is a difference says of what, where that is not its own count, and to what. `calls`
      # are system calls more that are an accident, `instructions` those that come with them.
      Row = Struct.new(:text, :of, :over, :calls, :instructions, keyword_init: true)
      # A thread and its standby wake each other, and either may be the one that reads the request: valgrind lets one
      # run at a time, and the machine's other work says which. One call more in each request still fails.
      WAKE = { calls: 0.7, instructions: 700 }.freeze
      ALL = {
        "parser" => Row.new(text: "the head of a browser's request is parsed"),
        "outbox" => Row.new(text: "a head is copied, a body borrowed, both are sent"),
        "hello" => Row.new(text: "a request on a fiber"),
        "env" => Row.new(text: "six fields more in the request", over: "hello"),
        "response" => Row.new(text: "eight fields more in the response", over: "hello"),
        # On a busy machine a millisecond passes between its pieces, which then leave by themselves.
        "stream" => Row.new(text: "a body of eight pieces instead of one", over: "hello", calls: 1),
        "wait" => Row.new(text: "the app asks another server and waits once", over: "hello"),
        "tls" => Row.new(text: "two records of TLS, one each way", over: "hello"),
        "http2" => Row.new(text: "a request of HTTP/2 on a fiber"),
        "thread" => Row.new(text: "a request on a thread", **WAKE),
        "page" => Row.new(text: "what is shown of a request: counters, clock and row", of: "hello", over: "bare"),
        "thread_page" => Row.new(text: "the same on a thread", of: "thread", over: "thread_bare", **WAKE)
      }.freeze
      # Those of one server, in this order.
      FIBERS = %w[hello env response stream wait tls http2].freeze
      MORE = ["Accept-Language: en-GB,en;q=0.7", "Accept-Encoding: gzip, deflate, br", "X-Forwarded-Proto: http",
              "Referer: http://www.example.test/articles", "Cookie: session=0123456789abcdef; theme=dark",
              "Upgrade-Insecure-Requests: 1"].freeze
      # Seconds for which a pool of threads rests before a request: its standby is asleep then, each time.
      REST = 0.02
      # Of a thread: few at a time, so that some have no accident.
      SHORT = { requests: 6, segments: 20 }.freeze

      # @param names [Array<String>] of rows
      # @param alone [Boolean] count no others on fibers. What has run before on a server moves counts a little, by the
      #   memory that it leaves: they can be compared with those of the same rows only
      # @param root [String] the checkout that is counted, compiled
      # @param around [String, nil] a file for the servers
      # @param folder [String] for callgrind's files
      def initialize(names, root:, around:, folder:, alone: false)
        @names = names
        @alone = alone
        @options = { folder: folder, lib: File.join(root, "lib"), around: around }
        @parts = Parts.new(folder: folder, root: root)
      end

      # @return [Hash{String => Counts}] in the order of ALL; without those for which a library was not there when
      #   Abaca was compiled
      def count
        wanted = @names | @names.flat_map { |name| ALL.fetch(name).to_h.values_at(:of, :over).compact }
        wanted |= FIBERS if wanted.intersect?(FIBERS) && !@alone
        counts = wanted.intersect?(Parts::NAMES) ? @parts.count : {}
        counts.update(on("fiber") { |server| fibers(server, wanted) }) if wanted.intersect?(FIBERS)
        counts.update(on("thread", rest: REST) { |server| threads(server) }) if wanted.include?("thread")
        result(counts.merge(bare(wanted)))
      end

      private

      # Counted as where there is a page, with the same rows before.
      def bare(wanted)
        counts = {}
        counts["bare"] = on("fiber_bare") { |server| fibers(server, wanted) }["hello"] if wanted.include?("bare")
        if wanted.include?("thread_bare")
          counts["thread_bare"] = on("thread_bare", rest: REST) { |server| threads(server) }["thread"]
        end
        counts
      end

      def result(counts)
        rows = ALL.slice(*@names).select { |name, row| counts.key?(row.of || name) }
        rows.to_h do |name, row|
          count = counts.fetch(row.of || name)
          [name, row.over ? count - counts.fetch(row.over) : count]
        end
      end

      def on(mode, **options)
        server = CountedServer.new(mode, **options, **@options)
        yield(server).tap { server.forget }
      ensure
        server&.stop
      end

      # All connections are there, and have had an answer, before the first row is counted. The one from which others
      # are differences comes last, when the boot has been forgotten.
      def fibers(server, wanted)
        requests = { "env" => http1(server, "/hello", *MORE), "response" => http1(server, "/fields"),
                     "stream" => http1(server, "/pieces"), "wait" => http1(server, "/wait") { server.answer_upstream },
                     "tls" => http1(server, "/hello", tls: true), "http2" => http2(server),
                     "hello" => http1(server, "/hello") }.compact.slice(*wanted)
        requests.each_value { |request| server.quiet(&request) }
        requests.transform_values { |request| server.count(&request) }
      end

      def threads(server)
        request = http1(server, "/hello")
        server.quiet(&request)
        { "thread" => server.count(**SHORT, &request) }
      end

      def http1(server, path, *fields, tls: false, &waiting)
        port = server.ports.fetch(tls ? :tls : :http) or return
        client = Http1Client.new(port, tls: tls)
        request = Http1Client.get(path, *fields)
        -> { client.ask(request, &waiting) }
      end

      def http2(server)
        port = server.ports.fetch(:http2) or return
        client = Http2Client.new(port)
        -> { client.ask(client.request) }
      end
    end
  end
end
