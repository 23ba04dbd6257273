# frozen_string_literal: true

require_relative "../servers/field"
require_relative "../servers/load"

module Bench
  # What honest clients notice of others that send bodies without end in the smallest pieces, over one protocol. In each
  # round each server is asked first without, then beside them.
  class Pieces
    APP = File.join(DIR, "apps", "upload.ru")
    CLIENT = File.join(DIR, "clients", "pieces.rb")
    SERVERS = %w[abaca nginx go].freeze
    TITLES = { "http1" => "HTTP/1.1", "https" => "HTTP/1.1 with TLS", "h2c" => "HTTP/2",
               "h2" => "HTTP/2 with TLS" }.freeze
    HONEST = 50
    RATE = 10 # requests a second of each
    GRACE = 10 # seconds that the attackers may take beyond their time
    Turn = Struct.new(:alone_p50, :alone_p99, :beside_p50, :beside_p99, :worst, :answered, :failed, :sent, :ends,
                      keyword_init: true)

    # A protocol, and how many clients send pieces.
    Row = Struct.new(:protocol, :clients) do
      def name = "#{protocol}-#{clients}"
      def title = "#{clients} clients that send the smallest pieces over #{TITLES.fetch(protocol)}"
    end
    ROWS = TITLES.keys.product([12, 40]).map { |terms| Row.new(*terms) }

    def initialize(row:, servers:, rounds:, seconds:)
      @row = row
      @load = Load.new(connections: HONEST, protocol: row.protocol.to_sym)
      @field = Field.new(only: servers, name: "pieces-#{row.name}", cpu: 0)
      @rounds = rounds
      @seconds = seconds
      @honest = H2load.new(cpu: 1)
    end

    def run
      @field.rounds(@rounds, @row.title) do |entry|
        raise Unavailable, "does not speak it" unless entry.server.speaks?(@load.protocol)

        @field.alone(entry, app: APP, right: ->(port) { right?(port) }, **@load.terms) { measure(entry.port) }
      end
    end

    # @return [String] a table
    def render
      @field.render("p50/p99 ms alone", "beside", "worst", "p99 ratio", "answered", "failed", "sent MB/s",
                    "its ends") do |turns|
        cells(turns)
      end
    end

    # @return [Hash] for the results file
    def to_h = { row: @row.name, honest: HONEST, rate: RATE, seconds: @seconds, **@field.to_h }

    private

    def right?(port)
      tls = @load.tls?
      body = @load.http2? ? H2load.get(port: port, tls: tls) : Probe.get(port: port, seconds: 1, tls: tls)&.body
      !body.to_s.empty?
    end

    def measure(port)
      ask(port, 2) # the heap grows now, not later
      alone, = ask(port, @seconds)
      attack = Thread.new { attack(port) }
      attack.report_on_exception = false
      sleep 0.5 # they come
      beside, failed = ask(port, @seconds)
      turn(alone, beside, failed, attack.value)
    end

    def turn(alone, beside, failed, found)
      shares = { alone: alone, beside: beside }.flat_map do |name, times|
        [50, 99].map { |percent| [:"#{name}_p#{percent}", Statistics.percentile(times, percent)] }
      end
      Turn.new(**shares.to_h, worst: beside.max, answered: beside.size, failed: failed,
                              sent: found.fetch("bytes") / (@seconds + 1), ends: found.fetch("ends"))
    end

    def ask(port, seconds)
      @honest.paced(port: port, connections: HONEST, rate: RATE, seconds: seconds, http1: !@load.http2?,
                    tls: @load.tls?)
    end

    # What they compute themselves shall not delay the honest clients.
    def attack(port)
      words = [port, @row.protocol, @row.clients, @seconds + 1].map(&:to_s)
      text, = Open3.capture2e("nice", "-n", "19", "taskset", "-c", "1", "timeout", (@seconds + GRACE).to_s,
                              RbConfig.ruby, CLIENT, *words)
      JSON.parse(text.lines.last.to_s)
    rescue JSON::ParserError
      raise Failed, "the attackers: #{text.strip}"
    end

    def cells(turns)
      alone, beside = %w[alone beside].map do |name|
        %w[p50 p99].map { |share| milliseconds(turns, :"#{name}_#{share}") }.join("/")
      end
      ratio = Ratio.new(*%i[beside_p99 alone_p99].map { |field| turns.map(&field) })
      ends = turns.map(&:ends).reduce { |all, more| all.merge(more) { |_, one, other| one + other } }
      [alone, beside, (turns.map(&:worst).max / 1000.0).round(1), ratio.cell, turns.sum(&:answered),
       turns.sum(&:failed), (Statistics.median(turns.map(&:sent)) / 1e6).round,
       ends.map { |code, times| "#{times} #{code}" }.join(", ")]
    end

    def milliseconds(turns, field) = (Statistics.median(turns.map(&field)) / 1000.0).round(1)
  end
end
