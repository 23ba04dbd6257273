# frozen_string_literal: true

require "rbconfig"

module Bench
  # What `bin/bench all` runs, in this order, and for how many seconds at most.
  module Scenarios
    FULL = 2400 # seconds for all of them
    QUICK = 300

    # One run of a benchmark. `full` and `quick` are its arguments, `seconds` what it may take with each.
    Scenario = Struct.new(:name, :benchmark, :full, :quick, :seconds, keyword_init: true) do
      # @param quick [Boolean]
      # @return [Integer] seconds
      def budget(quick:) = seconds.fetch(quick ? 1 : 0)

      # @param ruby [String, nil] name of the Ruby of the servers, nil for this one
      # @return [Array<String>]
      def command(quick:, ruby:)
        [RbConfig.ruby, "-Ilib", File.join(DIR, "#{benchmark}.rb"), *(quick ? ["--quick", *self.quick] : full),
         "--ruby", ruby || Ruby.here.name]
      end
    end

    # @param seconds [Array<Integer>] full, quick
    def self.scenario(name, seconds:, benchmark: name, full: "", quick: full)
      Scenario.new(name: name, benchmark: benchmark, full: full.split, quick: quick.split, seconds: seconds)
    end
    private_class_method :scenario

    ALL = [
      scenario("servers", seconds: [236, 25], full: "--loads ka64,close64",
                          quick: "--rounds 1 --loads ka64 --only limit,abaca,puma,node,nginx"),
      scenario("servers_tls", benchmark: "servers", seconds: [205, 12], full: "--loads tls64,h2_10",
                              quick: "--rounds 1 --loads h2_10 --only abaca,nginx"),
      scenario("two_workers", benchmark: "cluster", seconds: [72, 15], full: "--rows burn,hello --rounds 2",
                              quick: "--rows hello"),
      scenario("memory", benchmark: "cluster", seconds: [65, 12], full: "--rows memory --rounds 2",
                         quick: "--rows memory --only abaca"),
      scenario("waiting", seconds: [76, 10]),
      scenario("sleepers", seconds: [85, 12], full: "--seconds 3", quick: "--only abaca"),
      scenario("hogs", seconds: [120, 15], full: "--rounds 2", quick: "--only abaca"),
      scenario("modes", seconds: [112, 8], full: "--rows c64,crowd --rounds 2", quick: "--rows crowd --only abaca"),
      scenario("ab", seconds: [90, 8], full: "--requests 20000", quick: "--only limit,abaca"),
      scenario("relay", seconds: [130, 20], full: "--rounds 2", quick: "--only abaca,node,puma"),
      scenario("rails", seconds: [234, 25], full: "--rounds 2 --seconds 1", quick: "--only abaca --databases sqlite"),
      scenario("restarts", seconds: [85, 18], full: "--rounds 1", quick: "--only abaca"),
      scenario("upload", seconds: [45, 6], full: "--megabytes 256 --posts 1000", quick: "--only abaca"),
      scenario("streaming", seconds: [42, 6], quick: "--only abaca"),
      scenario("serializer", seconds: [96, 20], full: "--seconds 3 --megabytes 1024 --share 4 --rounds 2",
                             quick: "--only abaca --parts gets,echoes --megabytes 64"),
      scenario("idle", seconds: [203, 8], full: "--rounds 2 --seconds 1 --connections 3000",
                       quick: "--only abaca --rows plain"),
      scenario("idle_many", benchmark: "idle", seconds: [108, 10], full: "--rows many --rounds 1 --seconds 1",
                            quick: "--rows many --only abaca"),
      scenario("fibers", seconds: [50, 30], full: "--rounds 2 --share 4", quick: "--share 100"),
      scenario("scheduler", seconds: [190, 12], full: "--rounds 2 --scale 0.12 --limit 15",
                            quick: "--only abaca,threads --scale 0.02"),
      scenario("workers", seconds: [85, 10], full: "--share 10", quick: "--share 200"),
      scenario("gc_pacing", seconds: [42, 12], full: "--rounds 2 --units 20000", quick: "--fibers 0"),
      scenario("objects", seconds: [23, 5], full: "--requests 2000", quick: "--only abaca")
    ].freeze

    # Why the other benchmarks are none of them.
    LEFT_OUT = {
      "all" => "runs the others",
      "attacks" => "what others notice of attacks: half an hour",
      "databases" => "installs three databases; `rails` has two of them",
      "guard" => "counts without a clock: bin/bench guard",
      "handshakes" => "a load of `servers` has the price of handshakes; this is what others notice",
      "looks" => "compares Abaca with itself while somebody looks",
      "pages" => "pages that compute: a quarter of an hour, and hours with all its options",
      "pollers" => "compares Abaca with itself on the portable build",
      "profile" => "says where the time goes, not how much it is",
      "report" => "shows what this has measured",
      "slow_clients" => "takes a minute for each of fifteen cells, of Abaca alone",
      "slow_readers" => "measures Abaca alone"
    }.freeze
  end
end
