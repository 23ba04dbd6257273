# frozen_string_literal: true

Dir[File.join(__dir__, "readers", "*.rb")].sort.each { |path| require path }

module Bench
  module Reporting
    # Which reader a benchmark has. One without is shown as a plain table; PLAIN names those for which that is meant.
    module Readers
      ALL = {
        "servers" => ServersReader, "waiting" => WaitingReader, "sleepers" => SleepersReader, "modes" => ModesReader,
        "ab" => AbReader, "fibers" => FibersReader, "scheduler" => SchedulerReader, "workers" => WorkersReader,
        "serializer" => SerializerReader, "upload" => UploadReader, "streaming" => StreamingReader,
        "idle" => IdleReader, "gc_pacing" => GcPacingReader, "objects" => ObjectsReader,
        "slow_clients" => SlowClientsReader, "slow_readers" => SlowReadersReader, "databases" => DatabasesReader,
        "cluster" => ClusterReader, "relay" => RelayReader, "hogs" => HogsReader, "restarts" => RestartsReader,
        "rails" => RailsReader, "handshakes" => HandshakesReader, "attacks" => AttacksReader, "looks" => LooksReader
      }.freeze

      # Benchmarks whose figures have no chart.
      PLAIN = %w[pollers].freeze

      # Benchmarks whose results are for people who look for reasons, and not on the page.
      UNSHOWN = %w[pages profile].freeze

      module_function

      # @param run [Run]
      # @return [Array<Chart>] without those that have no row
      # @raise [ArgumentError] when it is another shape than the reader knows
      def charts(run)
        ALL.fetch(run.benchmark).new(run).charts.reject(&:empty?)
      rescue KeyError, NoMethodError, TypeError => e
        raise ArgumentError, "#{run.file} cannot be read by #{ALL[run.benchmark]}: #{e.message}", e.backtrace
      end

      # @param run [Run]
      # @return [Boolean]
      def any?(run) = ALL.key?(run.benchmark)
    end
  end
end
