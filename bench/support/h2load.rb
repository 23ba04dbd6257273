# frozen_string_literal: true

require "open3"
require "tempfile"

module Bench
  # Runs h2load against a server that speaks HTTP/2; the figures are those of Wrk.
  class H2load
    # It has not come to its end, as happens now and then when the time is over. The figures are lost.
    class Stuck < Failed; end

    STREAMS = 32 # requests at once on a connection
    TLS = %w[--npn-list=h2 --tls13-ciphers=TLS_AES_128_GCM_SHA256 --groups=X25519].freeze

    # @param cpu [Integer, nil] the CPU to pin to
    # @raise [Unavailable] without it, or what asks once
    def initialize(cpu: nil)
      @program, = %w[h2load nghttp].map { |name| Tools.find(name) }
      @prefix = cpu ? ["taskset", "-c", cpu.to_s] : []
    end

    # @param connections [Integer]
    # @param seconds [Integer]
    # @param tls [Boolean]
    # @return [Wrk::Figures]
    # @raise [Stuck, Failed] when it says nothing, or too many requests failed
    def run(port:, connections:, seconds:, tls: false, **)
      Tempfile.create("h2load") do |log|
        words = ["-D#{seconds}", "-c#{connections}", "-m#{STREAMS}", *(TLS if tls), "--log-file=#{log.path}",
                 "http#{"s" if tls}://127.0.0.1:#{port}/"]
        text = ask(seconds, words)
        figures(text, File.readlines(log.path).map { |line| Integer(line.split("\t").last) }, seconds)
      end
    end

    # Clients that ask at a steady rate, one request at a time.
    #
    # @param rate [Integer] requests a second of each
    # @param http1 [Boolean] HTTP/1.1 instead of HTTP/2
    # @param tls [Boolean]
    # @return [(Array<Integer>, Integer)] microseconds of each answer, and how many requests failed
    # @raise [Failed] when it says nothing
    def paced(port:, connections:, rate:, seconds:, http1: false, tls: false)
      Tempfile.create("h2load") do |log|
        words = [*("--h1" if http1), *(TLS if tls && !http1), "-c#{connections}", "-m1", "--rps=#{rate}",
                 "-D#{seconds}", "--log-file=#{log.path}", "http#{"s" if tls}://127.0.0.1:#{port}/"]
        text = ask(seconds, words)
        rows = File.readlines(log.path).map { |line| line.split("\t").map(&:to_i) }
        raise Failed, "h2load: #{text.lines.last.to_s.strip}" if rows.empty?

        good, bad = rows.partition { |_, status, _| status == 200 }
        [good.map(&:last), bad.size]
      end
    end

    # Runs the block again when h2load was stuck in it.
    # @param tries [Integer]
    # @return what the block returns
    # @raise [Stuck] when it always was
    def self.patiently(tries: 3)
      yield
    rescue Stuck
      (tries -= 1).positive? ? retry : raise
    end

    # Asks once, before any load.
    # @param tls [Boolean]
    # @return [String, nil] the content
    def self.get(port:, tls: false)
      url = "http#{"s" if tls}://127.0.0.1:#{port}/"
      text, status = Open3.capture2("timeout", "5", Tools.find("nghttp"), url, err: File::NULL)
      text if status.success?
    end

    private

    # @return [String] what it says
    def ask(seconds, words)
      command = [*@prefix, "timeout", (seconds + Wrk::GRACE).to_s, @program, *words]
      Bench.account.client { Open3.capture2e(*command).first }
    end

    def figures(text, times, seconds)
      done, failed, errored, late = text.match(/(\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout/)&.captures
                                        &.map(&:to_i)
      raise Stuck, "h2load did not end" if done.nil? && text.include?("Main benchmark duration")
      raise Failed, "h2load: #{text.lines.last.to_s.strip}" if done.to_i.zero?
      raise Failed, "#{failed} failed, #{errored} errored of #{done}" if failed + errored > done * Wrk::ERRORS_MAX

      Wrk::Figures.new(requests: done, microseconds: seconds * 1_000_000, mean: times.sum / times.size,
                       p50: Statistics.percentile(times, 50), p99: Statistics.percentile(times, 99),
                       connect: 0, read: errored, write: 0, status: failed, timeout: late)
    end
  end
end
