# frozen_string_literal: true

module Bench
  # Servers that are asked. A subclass says which ones, how they are started (`terms`), and asks.
  class Served < Subject
    # @param settings [Array<(String, Hash)>] of a Field
    # @param only [Array<String>, nil] of these
    def initialize(settings:, only: nil, **options)
      super(**options)
      @field = Field.new(settings: settings, only: only, ruby: @ruby, name: "profile", cpu: @cpu)
    end

    # Each server is alone, so that none idles beside the one that is recorded.
    def run
      @field.rounds(1, @name) { |entry| @field.alone(entry, **terms(entry.server)) { look(entry) } }
    end

    private

    def found = @field.turns.transform_values(&:first)
    def absent = @field.absent

    # @param server [Catalog::Server]
    # @return [Hash] for Field#alone
    # @raise [Unavailable] when it cannot take part
    def terms(server) = raise(NotImplementedError)

    # @return [Integer] operations that were done
    def ask(port, seconds) = raise(NotImplementedError)

    def look(entry)
      ask(entry.port, 1) # it is warm then, and helpers of its start have ended
      pids = CpuMeter.family(entry.child.pid)
      samples = Samples.new(own: [entry.server.name, File.basename(File.readlink("/proc/#{pids.first}/exe"))])
      samples.add(Recorder.samples(pids, cpu: @other_cpu) { ask(entry.port, @seconds) })
      operations = 0
      text = Recorder.calls(pids, cpu: @other_cpu) { operations = ask(entry.port, 1) }
      Found.new(samples: samples, calls: SystemCalls.new(text, operations))
    end
  end

  # Servers under a load of `bin/bench servers`: Abaca, and the one that is ahead without Ruby.
  class Loaded < Served
    PEERS = { http1: "nginx", https: "h2o", h2c: "h2o", h2: "h2o" }.freeze

    # @param load [Load]
    # @param only [Array<String>, nil] instead of these two, any of the catalog
    def initialize(load:, only: nil, **options)
      names = only || ["abaca", PEERS.fetch(load.protocol)]
      super(name: "servers/#{load.name}", settings: names.map { |name| [name, {}] }, **options)
      @load = load
      @client = Loads.clients([load], cpu: @other_cpu).fetch(load.client)
    end

    def title = "#{@name}: #{@load.title}"

    private

    def terms(server)
      raise Unavailable, "does not speak it" unless server.speaks?(@load.protocol)

      { size: @load.body_size, right: ->(port) { @load.right?(port) }, **@load.terms }
    end

    def look(entry) = H2load.patiently { super }

    def ask(port, seconds)
      @client.run(port: port, connections: @load.connections, seconds: seconds, headers: @load.headers,
                  depth: @load.depth, tls: @load.tls?).requests
    end
  end

  # Gateways that hand on streams of events, as `bin/bench relay` has them.
  class Relayed < Served
    SETTINGS = [["abaca", {}], *Gateway::PROGRAMS.select { |name, *| name == "bun" }].freeze
    STREAMS = 500
    PACE = 100 # milliseconds between two events of a stream

    def initialize(**options)
      super(name: "relay/cpu", settings: SETTINGS, **options)
      @events = @seconds * 1000 / PACE
    end

    def title = "#{@name}: #{STREAMS} streams of events"

    def run
      @upstream = Upstream.stream(events: @events, pace: PACE, cpu: @other_cpu)
      super
    end

    private

    def terms(_server) = { app: Gateway::APP, env: @upstream, right: Gateway::READY }

    # A stream has as many events as the upstream sends, however many seconds that takes.
    def ask(port, _seconds)
      Gateway.ask(port, streams: STREAMS, events: @events, pace: PACE, cpu: @other_cpu).fetch(:events)
    end
  end
end
