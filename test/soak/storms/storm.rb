# frozen_string_literal: true

require_relative "../../support/test_build"
require_relative "clients"
require_relative "cluster"

# Storms over a server: restarts, kills and signals under load, and what the clients notice of them.
module Storms
  # Something did not happen in time.
  class Failed < StandardError; end

  # Waits until the block is true.
  #
  # @raise [Failed] if it does not come
  def self.wait_for(what, within: Cluster::SECONDS)
    deadline = now + within
    until (result = yield)
      raise Failed, "#{what} did not come within #{within} s" if now > deadline

      sleep 0.02
    end
    result
  end

  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  # One of them. A subclass has a word, a line of help, and #blow.
  class Storm
    class << self
      # @return [Array<Class>] in the order of their definition
      def all = @all ||= []

      # @return [String]
      attr_reader :word, :help

      # For subclasses.
      def named(word, help)
        @word = word
        @help = help
        Storm.all << self
      end
    end

    # Where times are counted: seconds between two of them, at most, and between two requests of a client.
    SHORT = 0.01
    private_constant :SHORT

    # @param seconds [Numeric] how long
    # @param rounds [Integer, nil] how many times instead: then nothing is judged by the clock
    # @param clients [Integer] of the load
    # @param seed [Integer] of its choices
    def initialize(seconds:, rounds:, clients:, seed:)
      @seconds = seconds
      @rounds = rounds
      @clients = clients
      @random = Random.new(seed)
      @wrong = []
      @figures = {}
    end

    # @return [Boolean] whether all was as it shall be
    def run
      begin
        blow
      rescue Failed => e
        @wrong << e.message
      end
      @figures.each { |name, value| puts "#{self.class.word}: #{name}: #{value}" }
      @wrong.tally.max_by(10, &:last).each { |text, count| puts "#{self.class.word}: WRONG, #{count} times: #{text}" }
      puts "#{self.class.word}: #{@wrong.empty? ? "good" : "NOT GOOD"}"
      @wrong.empty?
    end

    private

    # Runs the block under load; then the clients and the server end in order.
    #
    # @param bearable [#call] whether a note of the clients is no failure
    def under_load(settings = "", bearable: ->(note) { note.kind == :kept })
      Cluster.open(settings) do |cluster|
        clients = Clients.new(cluster.port, @clients, pause: @rounds ? SHORT : 0)
        begin
          yield cluster, clients
        ensure
          clients.stop
          judge(clients, bearable)
        end
        @wrong.concat(cluster.finish)
        check_log(cluster)
      end
    end

    def judge(clients, bearable)
      failures = clients.notes.reject { |note| note.kind == :late || bearable.call(note) }
      @figures["requests"] = "#{clients.answers} answered, #{failures.size} failed"
      @figures["connections that ended"] = clients.notes.map(&:kind).tally
      @wrong.concat(failures.map { |note| "#{note.kind}: #{note.text}" })
    end

    def check_log(cluster)
      crash = cluster.text[/^.*(?:#{TestBuild::REPORT}).*(?:\n.*){0,40}/]
      @wrong << crash if crash
    end

    # Calls the block with 0, 1, ... at these intervals until the time, or their number, is over.
    #
    # @param pause [Numeric] seconds
    def every(pause)
      pause = [pause, SHORT].min if @rounds
      start = Storms.now
      (0..).each do |nth|
        left = start + (nth * pause) - Storms.now
        sleep left if left.positive?
        break if @rounds ? nth == @rounds : Storms.now - start >= @seconds

        yield nth
      end
    end

    def milliseconds(values)
      sorted = values.sort
      return "none" if sorted.empty?

      "median #{(sorted[sorted.size / 2] * 1e3).round} ms, most #{(sorted.last * 1e3).round} ms"
    end
  end
end
