# frozen_string_literal: true

require_relative "../../support/certificates"
require_relative "../../support/http2_frames"
require_relative "../../support/tls_client"

module Storms
  # Clients of HTTP/2 end their connections behind 20 requests, in each way that they have, next to a streamed body and
  # a million objects, whose collections hold up the loop while it begins a request. Half of them speak TLS. A server on
  # fibers, then one in mode hybrid, goes on and answers others.
  class Resets < Storm
    named "resets", "HTTP/2 connections that end behind their requests, next to a streamed body"

    MODES = %w[fiber hybrid].freeze
    CLIENTS = 8
    READERS = 2 # of the body
    APP = <<~RUBY
      HEAP = Array.new(1_000_000) { [] }
      PIECE = "x" * 1000
      TEXT = { "content-type" => "text/plain" }.freeze
      PIECES = lambda do |stream|
        loop { stream << PIECE and sleep 0.0005 }
      ensure
        stream.close
      end
      run ->(env) { [200, TEXT, env["PATH_INFO"] == "/stream" ? PIECES : ["hello"]] }
    RUBY
    STREAMS = Array.new(20) { |nth| (2 * nth) + 1 }.freeze
    # They may be sent whatever there is.
    REQUESTS = Http2Frames.bytes(
      "preface settings 0 - 0001 00000000 0004 7fffffff window_update 0 - 7fff0000 " +
      STREAMS.map { |stream| "headers #{stream} es,eh 8286 0402'/a' 0106'a.test'" }.join(" ")
    ).freeze
    RESETS = Http2Frames.bytes(STREAMS.map { |stream| "rst_stream #{stream} - 00000008" }.join(" ")).freeze
    WRONG = Http2Frames.bytes("window_update 0 - 00000000").freeze
    STREAM = "GET /stream HTTP/1.1\r\nHost: a.test\r\n\r\n"
    ENDS = %i[reset_streams break_rules break_off].freeze
    # Seconds that a client may stay behind its requests, and that anything may take.
    STAY = 0.01
    PATIENCE = 30
    GONE = [SystemCallError, EOFError, OpenSSL::SSL::SSLError, Wire::Late].freeze
    private_constant :MODES, :CLIENTS, :READERS, :APP, :STREAMS, :REQUESTS, :RESETS, :WRONG, :STREAM, :ENDS, :STAY,
                     :PATIENCE, :GONE

    private

    def blow = MODES.each { |mode| serve(mode) }

    def serve(mode)
      settings = "mode :#{mode}\nbind 'ssl://127.0.0.1:0?cert=a.pem&key=a.key'\n"
      certify = ->(folder) { Certificates.new(folder).make("a", names: ["a.test"]) }
      Cluster.open(settings, workers: 0, terms: "?h2c=true", app: APP, before: certify) do |cluster|
        load(cluster, mode)
        @wrong.concat(cluster.finish)
      ensure
        check_log(cluster)
      end
    end

    def load(cluster, mode)
      counts = Hash.new(0)
      @running = true
      threads = Array.new(CLIENTS) { |nth| Thread.new { leave_again(cluster, nth, Random.new(nth), counts) } }
      threads.concat(Array.new(READERS) { Thread.new { read_stream(cluster) } })
      watch(cluster)
    ensure
      @running = false
      threads&.each(&:join)
      @figures["#{mode}, connections that ended"] = counts
    end

    # Others are answered all the time.
    def watch(cluster)
      every(1) do
        client = Wire::Client.new(cluster.port, timeout: PATIENCE)
        status = client.call(Clients::CLOSING).status
        @wrong << "status #{status}" unless status == 200
      rescue *GONE => e
        raise Failed, "no answer: #{e.message}#{" (the server has ended)" if cluster.ended?}"
      ensure
        client&.close
      end
    end

    def leave_again(cluster, nth, random, counts)
      while @running
        name = ENDS.sample(random: random)
        counts[name] += 1 if leave(nth.odd? ? cluster.secure_port : cluster.port, nth.odd?, name, random)
      end
    end

    # False if the server has gone before.
    def leave(port, secure, name, random)
      client = secure ? TLSClient.new(port, alpn: ["h2"], timeout: PATIENCE) : Wire::Client.new(port, timeout: PATIENCE)
      client.write(name == :break_rules ? REQUESTS + WRONG : REQUESTS)
      sleep(random.rand(STAY))
      client.write(RESETS) if name == :reset_streams
      name == :break_off ? client.reset : client.close
      true
    rescue *GONE
      sleep STAY
      false
    ensure
      client&.close
    end

    # A stream that is read to its end: that comes when the server ends it.
    def read_stream(cluster)
      while @running
        client = Wire::Client.new(cluster.port, timeout: PATIENCE).write(STREAM)
        nil while @running && client.read_some
      end
    rescue *GONE
      sleep STAY
      retry if @running
    ensure
      client&.close
    end
  end
end
