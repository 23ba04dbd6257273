# frozen_string_literal: true

require "json"
require_relative "counts"

module Bench
  class Guard
    # What each row may cost, for each kind of machine: bench/baseline.json.
    class Baseline
      PATH = File.join(DIR, "baseline.json")
      LIMIT = 0.03 # more than that fails
      # Less than this is an accident, or the average of many requests. A standby that is woken is a system call.
      SLACK = { objects: 0.05, mallocs: 0.05, system_calls: 0.3 }.freeze
      # Instructions, of a row that is the difference of two: it has the accidents of whole requests.
      OVER = 100
      # More than this is one more, to be sure.
      ONE = 0.5

      # A figure that is not what it was.
      Change = Struct.new(:row, :name, :before, :now, keyword_init: true) do
        # @return [Float]
        def more = now - before

        # @return [Boolean]
        def worse? = more.positive?

        def to_s
          percent = before.zero? ? "" : format(" (%+.1f %%)", more * 100.0 / before.abs)
          "#{row}: #{Counts::NAMES.fetch(name)} #{Guard.figure(before)} -> #{Guard.figure(now)}, " \
            "#{format("%+g", more.round(2))}#{percent}"
        end
      end

      # What counts depend on beside the sources: an entry is for one kind. valgrind shows programs a processor of its
      # own, with AVX2 if the real one has it, and libraries choose by that.
      #
      # @return [String]
      def self.kind
        gcc = Machine.output_of("gcc", "-dumpversion") || "none"
        avx2 = File.read("/proc/cpuinfo").match?(/^flags\s*:.*\bavx2\b/)
        "Ruby #{RUBY_VERSION}, #{RbConfig::CONFIG.fetch("arch")}#{" with AVX2" if avx2}, gcc #{gcc}"
      end

      # What an entry notes, since it moves counts a little: a difference that nobody has made may come from there.
      #
      # @return [Hash{String => String}]
      def self.libraries
        { "valgrind" => Machine.output_of("valgrind", "--version").to_s.delete_prefix("valgrind-"),
          "glibc" => Machine.output_of("getconf", "GNU_LIBC_VERSION").to_s.delete_prefix("glibc "),
          "OpenSSL" => OpenSSL::OPENSSL_LIBRARY_VERSION[/\d+\.\d+\.\d+\S*/],
          "nghttp2" => Machine.output_of("pkg-config", "--modversion", "libnghttp2").to_s }
      end

      # @param path [String]
      # @param kind [String]
      def initialize(path = PATH, kind: self.class.kind)
        @path = path
        @kind = kind
        @entries = File.exist?(path) ? JSON.parse(File.read(path)) : {}
      end

      attr_reader :kind

      # @return [Boolean] whether it knows this kind of machine
      def known? = @entries.key?(@kind)

      # @return [Array<String>] the libraries that are not those of the entry
      def others
        self.class.libraries.filter_map do |name, version|
          before = @entries.dig(@kind, "libraries", name)
          "#{name} #{version} instead of #{before}" unless before == version
        end
      end

      # @param counts [Hash{String => Counts}] by row
      # @return [Array<Change>] beyond the limit, those that are worse first
      def changes(counts)
        changes = counts.flat_map do |row, count|
          before = figures(row)
          count.to_h.filter_map do |name, now|
            change = Change.new(row: row, name: name, before: before.fetch(name, 0), now: now)
            change if change.more.abs > allowed(row, name, before.fetch(name, 0).abs)
          end
        end
        changes.partition(&:worse?).flatten
      end

      # @return [Hash{Symbol => Numeric}] of a row; {} if it is new
      def figures(row) = @entries.dig(@kind, "rows", row).to_h.transform_keys(&:to_sym)

      # Writes the rows of this kind of machine; those that were not counted stay.
      #
      # @param counts [Hash{String => Counts}]
      def update(counts)
        rows = @entries.dig(@kind, "rows").to_h.merge(counts.transform_values(&:to_h))
        @entries[@kind] = { "libraries" => self.class.libraries, "rows" => rows }
        File.write(@path, Results.text(@entries.sort.to_h))
      end

      private

      # One more in each request is too much, however many there are.
      def allowed(row, name, before)
        row = Rows::ALL.fetch(row)
        return [LIMIT * before, row.instructions || (row.over ? OVER : 0)].max if name == :instructions
        return row.calls if name == :system_calls && row.calls

        [LIMIT * before, ONE].min.clamp(SLACK.fetch(name)..)
      end
    end
  end
end
