# frozen_string_literal: true

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

      sleep 0.01
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

    # @param seconds [Numeric] how long
    # @param seed [Integer] of its choices
    def initialize(seconds:, seed:)
      @seconds = seconds
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
    # @param load [Hash] for Clients
    def under_load(settings = "", bearable: ->(note) { note.kind == :kept }, **load)
      Cluster.open(settings) do |cluster|
        clients = Clients.new(cluster.port, **load)
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
      failures = clients.notes.reject { |note| bearable.call(note) }
      @figures["requests"] = "#{clients.answers} answered, #{failures.size} failed"
      @figures["connections that ended"] = clients.notes.map(&:kind).tally
      @wrong.concat(failures.map { |note| "#{note.kind}: #{note.text}" })
    end

    def check_log(cluster)
      crash = cluster.text[/^.*\[BUG\].*/]
      @wrong << crash if crash
    end

    # Calls the block with 0, 1, ... at these intervals until the time is over.
    #
    # @param pause [Numeric] seconds
    def every(pause)
      start = Storms.now
      (0..).each do |nth|
        left = start + (nth * pause) - Storms.now
        sleep left if left.positive?
        break if Storms.now - start >= @seconds

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
