# frozen_string_literal: true

require "set"
require_relative "folders"
require_relative "support/test_build"

# Which test files run in which ways. All run once in the plain way: apps on fibers, no TLS, the build that users have.
# A file says in its head what else changes what it tests:
#
#   # also: modes tls sanitized portable rubies
#
# modes: what the app runs on. tls: clients and servers of ServerCase speak TLS. sanitized, portable: the builds of that
# name (TestBuild). rubies: the version of Ruby. All combinations would take hours, and faults that need three of these
# at once are rare: in PAIRS any value of one column meets any value of each other column, somewhere in the suite; and
# `rake combinations` is for a release.
class Plan
  # One way to run tests. mode is what ServerCase takes.
  Way = Struct.new(:mode, :tls, :sanitized, :portable) do
    # @param tags [Array<String>] of a file
    # @return [Way] the same as far as the file may notice
    def for(tags)
      Way.new(tags.include?("modes") ? mode : PLAIN.mode, tls && tags.include?("tls"),
              sanitized && tags.include?("sanitized"), portable && tags.include?("portable"))
    end

    def build = [("sanitized" if sanitized), ("portable" if portable)].compact.join("-")

    def note
      words = [("in the mode #{mode}" unless mode == PLAIN.mode), ("over TLS" if tls), (build unless build.empty?)]
      words.compact.map { |word| " #{word}" }.join
    end

    def environment
      own = { "ABACA_TEST_MODE" => mode, "ABACA_TEST_TLS" => ("1" if tls) }.compact
      build.empty? ? own : own.merge(TestBuild.environment(build))
    end
  end
  PLAIN = Way.new("fiber", false, false, false).freeze

  # Async's scheduler needs Ruby 3.3.
  GUEST = RUBY_VERSION < "3.3" ? "guest:PlainScheduler" : "guest:Async::Scheduler"
  MODES = ["fiber", "thread", "routed", "hybrid", GUEST].freeze

  OLDEST = RUBY_VERSION < "3.2"

  # Beside the plain way, by whether this is the oldest Ruby. Files tagged `rubies` have their pairs on another one.
  PAIRS = {
    true => [Way.new("fiber", true, true, true), Way.new("thread", false, true, false),
             Way.new("hybrid", false, false, true), Way.new(GUEST, true, false, true)],
    false => [Way.new("thread", true, false, true), Way.new("hybrid", true, true, false),
              Way.new(GUEST, false, true, false)]
  }.freeze

  TAGS = /^# also: (.+)$/
  # Tags stand before the code.
  HEAD = 400 # bytes

  # @return [Array<Way>] the pairs of this Ruby
  def self.pairs = PAIRS.fetch(OLDEST)

  # @return [Array<Way>] all ways but the plain one
  def self.combinations
    MODES.product([false, true], [false, true], [false, true]).map { |values| Way.new(*values) } - [PLAIN]
  end

  # @param files [Array<String>] paths of tests
  # @param tags [Array<String>, nil] of all files; nil: those in their heads
  def initialize(files, tags: nil)
    @tags = files.to_h { |file| [file, tags || File.binread(file, HEAD).to_s[TAGS, 1].to_s.split] }
    @begun = Set.new
  end

  # @return [Array<String>]
  def files = @tags.keys

  # @return [Array<String>] of a file
  def tags(file) = @tags.fetch(file)

  # Adds the pairs of this Ruby to a run. On another one than the oldest a file that knows no other way runs in the
  # plain one.
  #
  # @param folders [Folders]
  # @return [Folders]
  def add_pairs(folders)
    here = @tags.select { |_, tags| tags.include?("rubies") ^ OLDEST }
    alike, varied = here.partition { |_, tags| tags == ["rubies"] }.map(&:to_h)
    folders.add(alike.keys) if alike.any?
    Plan.new(varied.keys).add(folders, Plan.pairs)
  end

  # Adds each file to a run in these ways, as far as they differ for it and it has not run so yet.
  #
  # @param folders [Folders]
  # @param ways [Array<Way>]
  # @return [Folders]
  def add(folders, ways)
    found = ways.flat_map { |way| @tags.map { |file, tags| [way.for(tags), file] } }
    found.select! { |pair| pair.first != PLAIN && @begun.add?(pair) }
    found.group_by(&:first).each do |way, pairs|
      folders.add(pairs.map(&:last), note: way.note, environment: way.environment)
    end
    folders
  end

  # @param ways [Array<Way>]
  # @return [Array<String>] the builds that they need
  def self.builds(ways) = ways.map(&:build).uniq - [""]
end
