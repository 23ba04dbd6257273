# frozen_string_literal: true

require "rbconfig"

module Bench
  # What `bin/bench all` runs, in this order, and for how many seconds at most.
  module Scenarios
    FULL = 2400 # seconds for all of them
    QUICK = 300

    # One run of a benchmark. `full` and `quick` are its arguments, `seconds` what it may take with each; `why` is the
    # reason where its servers run on this Ruby alone.
    Scenario = Struct.new(:name, :benchmark, :full, :quick, :seconds, :why, keyword_init: true) do
      # @param quick [Boolean]
      # @return [Integer] seconds
      def budget(quick:) = seconds.fetch(quick ? 1 : 0)

      # @param ruby [String, nil]
      # @return [String, nil] why it cannot run on it
      def obstacle(ruby:) = (why if ruby)

      # @return [Array<String>]
      def command(quick:, ruby:)
        [RbConfig.ruby, "-Ilib", File.join(DIR, "#{benchmark}.rb"), *(quick ? ["--quick", *self.quick] : full),
         *(["--ruby", ruby || Ruby.here.name] unless why)]
      end
    end

    # @param seconds [Array<Integer>] full, quick
    def self.scenario(name, seconds:, benchmark: name, full: "", quick: full, why: nil)
      Scenario.new(name: name, benchmark: benchmark, full: full.split, quick: quick.split, seconds: seconds, why: why)
    end
    private_class_method :scenario

    BUNDLED = "its application has its gems for one Ruby alone"

    ALL = [
      scenario("servers", seconds: [440, 25], full: "--loads ka64,close64,pipe16",
                          quick: "--rounds 1 --loads ka64 --only limit,abaca,puma,node,nginx"),
      scenario("servers_tls", benchmark: "servers", seconds: [260, 12], full: "--loads tls64,h2_10",
                              quick: "--rounds 1 --loads h2_10 --only abaca,nginx"),
      scenario("two_workers", benchmark: "cluster", seconds: [90, 15], full: "--rows burn,hello --rounds 3",
                              quick: "--rows hello", why: BUNDLED),
      scenario("memory", benchmark: "cluster", seconds: [90, 12], full: "--rows memory --rounds 2",
                         quick: "--rows memory --only abaca", why: BUNDLED),
      scenario("waiting", seconds: [100, 12]),
      scenario("sleepers", seconds: [150, 12], full: "--seconds 3", quick: "--only abaca"),
      scenario("modes", seconds: [150, 10], full: "--rows c64,crowd,wait64", quick: "--rows crowd --only abaca"),
      scenario("ab", seconds: [70, 8], full: "--requests 20000", quick: "--only limit,abaca"),
      scenario("fibers", seconds: [90, 15], full: "--rounds 3 --share 4", quick: "--share 100"),
      scenario("scheduler", seconds: [160, 12], full: "--rounds 3 --scale 0.2",
                            quick: "--only abaca,threads --scale 0.02"),
      scenario("workers", seconds: [60, 10], full: "--share 10", quick: "--share 200"),
      scenario("serializer", seconds: [150, 10], full: "--seconds 3 --megabytes 1024 --share 4 --rounds 3",
                             quick: "--only abaca --parts gets,echoes"),
      scenario("upload", seconds: [110, 6], full: "--megabytes 256 --posts 1000", quick: "--only abaca"),
      scenario("streaming", seconds: [70, 6], quick: "--only abaca"),
      scenario("idle", seconds: [150, 10], full: "--rounds 2 --seconds 1", quick: "--only abaca --rows plain"),
      scenario("gc_pacing", seconds: [60, 12], full: "--rounds 2 --units 20000", quick: "--fibers 0"),
      scenario("relay", seconds: [220, 20], quick: "--only abaca,node,puma"),
      scenario("objects", seconds: [40, 5], full: "--requests 2000", quick: "--only abaca")
    ].freeze

    # Why the other benchmarks are none of them.
    LEFT_OUT = {
      "all" => "runs the others",
      "attacks" => "compares Abaca with itself under attack, for three minutes",
      "databases" => "installs three databases; `rails` has two of them",
      "guard" => "counts without a clock: bin/bench guard",
      "handshakes" => "a load of `servers` has the price of handshakes; this is what others notice",
      "instructions" => "counts without a clock, under valgrind",
      "looks" => "compares Abaca with itself while somebody looks",
      "report" => "shows what this has measured",
      "slow_clients" => "takes a minute for each of fifteen cells, of Abaca alone",
      "slow_readers" => "measures Abaca alone"
    }.freeze
  end
end
