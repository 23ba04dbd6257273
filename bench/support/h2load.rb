# frozen_string_literal: true

require "open3"
require "tempfile"

module Bench
  # Runs h2load against a server that speaks HTTP/2 without TLS; the figures are those of Wrk.
  class H2load
    STREAMS = 32 # requests at once on a connection

    # @param cpu [Integer, nil] the CPU to pin to
    def initialize(cpu: nil)
      @command = [*(cpu && ["taskset", "-c", cpu.to_s]), "timeout"]
    end

    # @param connections [Integer]
    # @param seconds [Integer]
    # @return [Wrk::Figures]
    # @raise [Failed] when it says nothing, or too many requests failed
    def run(port:, connections:, seconds:, **)
      Tempfile.create("h2load") do |log|
        words = [(seconds + Wrk::GRACE).to_s, Tools.find("h2load"), "-D#{seconds}", "-c#{connections}", "-m#{STREAMS}",
                 "--log-file=#{log.path}", "http://127.0.0.1:#{port}/"]
        text, = Open3.capture2e(*@command, *words)
        figures(text, File.readlines(log.path).map { |line| Integer(line.split("\t").last) }, seconds)
      end
    end

    # Asks once, before any load.
    # @return [String, nil] the content
    def self.get(port:)
      text, status = Open3.capture2("timeout", "5", Tools.find("nghttp"), "http://127.0.0.1:#{port}/", err: File::NULL)
      text if status.success?
    end

    private

    def figures(text, times, seconds)
      done, failed, errored, late = text.match(/(\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout/)&.captures
                                        &.map(&:to_i)
      raise Failed, "h2load: #{text.lines.last.to_s.strip}" if done.to_i.zero?
      raise Failed, "#{failed} failed, #{errored} errored of #{done}" if failed + errored > done * Wrk::ERRORS_MAX

      Wrk::Figures.new(requests: done, microseconds: seconds * 1_000_000, mean: times.sum / times.size,
                       p50: Statistics.percentile(times, 50), p99: Statistics.percentile(times, 99),
                       connect: 0, read: errored, write: 0, status: failed, timeout: late)
    end
  end
end
