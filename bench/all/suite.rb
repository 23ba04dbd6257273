# frozen_string_literal: true

require "json"
require "rbconfig"

module Bench
  # Runs scenarios one after another, each in a process of its own with a limit of time: its budget, and what those
  # before it have left of theirs, so that a busy machine stops none while there is time. Whatever becomes of one, the
  # next has its turn; in the end there is a row for each.
  class Suite
    LEAST = 3 # seconds, below which no scenario is begun

    # What became of a scenario. `file` has its figures, `account` is what it says of itself.
    Outcome = Struct.new(:name, :state, :seconds, :budget, :file, :reason, :account, keyword_init: true) do
      def rows = account.to_h.fetch("rows", [])

      # Those of other servers that have no figure.
      def absent
        rows.select { |row| row["reason"] }.to_h { |row| [row.values_at("row", "name").join(": "), row["reason"]] }
      end

      def turns = rows.sum { |row| row["turns"] }
      def disturbed = rows.sum { |row| row["disturbed"].size }

      def to_h
        { name: name, state: state.to_s, seconds: seconds, budget: budget, file: file, reason: reason,
          turns: turns, disturbed: disturbed, absent: absent }.compact
      end
    end

    # @param scenarios [Array<Scenario>]
    # @param quick [Boolean]
    # @param ruby [String, nil] name of the Ruby of the servers, nil for the one that runs this
    # @param limit [Numeric] seconds for all
    # @param root [String] the folder in which they run
    # @param progress [#puts]
    def initialize(scenarios:, quick:, limit:, ruby: nil, root: ROOT, progress: $stderr)
      @scenarios = scenarios
      @quick = quick
      @ruby = ruby
      @limit = limit
      @root = root
      @progress = progress
      @outcomes = []
    end

    def run
      witness = Witness.new
      @load = Witness.load
      @end = Clock.now + @limit
      @spare = 0
      @scenarios.each { |scenario| @outcomes << outcome(scenario) }
      @sight = witness.stop
    end

    # @return [Boolean] whether all rows of Abaca ran
    def good? = @outcomes.none? { |outcome| outcome.state == :failed }

    # @return [String] a table, and why something is missing in it
    def render
      table = Table.new(["scenario", "", "s", "of", "turns", "disturbed", "written to"])
      @outcomes.each do |one|
        table.add(one.name, one.state, one.seconds, one.budget, *measured(one), one.file)
      end
      [table, *reasons, conditions].join("\n")
    end

    # @return [Hash] for the results file
    def to_h
      { load_before: @load, load_after: Witness.load, **@sight.to_h, good: good?, scenarios: @outcomes.map(&:to_h) }
    end

    private

    def measured(one) = one.account ? [one.turns, one.disturbed] : [nil, nil]

    def reasons
      lines = @outcomes.flat_map do |one|
        [one.reason, *one.absent.map do |row, reason|
          "#{row}: #{reason}"
        end].compact.map { |text| "#{one.name}: #{text}" }
      end
      lines.empty? ? [] : ["Without a figure\n\n#{lines.join("\n")}\n"]
    end

    def conditions
      format("%<seconds>d s; load %<load>.2f before, %<after>.2f after; others had %<others>.2f of a processor, the " \
             "hypervisor %<steal>.2f\n", load: @load, after: Witness.load, **@sight.to_h)
    end

    def outcome(scenario)
      budget = scenario.budget(quick: @quick)
      begun = Clock.now
      limit = [budget + @spare, @end - begun].min
      @progress.puts "#{scenario.name}: up to #{limit.round} s"
      found = @end - begun < LEAST ? failed("no time is left for it") : take(scenario, limit)
      taken = Clock.now - begun
      @spare = [limit - taken, 0].max
      Outcome.new(name: scenario.name, seconds: taken.round, budget: budget, **found)
    end

    def take(scenario, limit)
      child = Child.new(scenario.command(quick: @quick, ruby: @ruby), name: "all-#{scenario.name}")
      status = child.wait(seconds: limit)
      child.stop
      return failed("stopped after #{limit.round} s: see #{log(child)}") unless status

      judge(status, child)
    rescue SystemCallError, JSON::ParserError => e
      failed(e.message)
    end

    # A scenario has run if it has written its figures, and no row of Abaca's is missing in them.
    def judge(status, child)
      path = File.read(child.log)[/^written to (\S+)$/, 1]
      return failed("#{child.last_words} (#{log(child)})") unless status.success? && path

      data = JSON.parse(File.read(File.expand_path(path, @root)))
      found = { file: path, account: data["account"] }
      reason = complaint(data)
      reason ? { **failed(reason), **found } : { state: :ran, **found }
    end

    def complaint(data)
      return "the tree has changed meanwhile" if !@quick && data.dig("machine", "uncommitted_changes")

      ours = data.fetch("account", {}).fetch("rows", []).select { |row| row["ours"] }
      return "no row of Abaca's" if ours.empty?

      missing = ours.select { |row| row["reason"] }
      missing.map { |row| "#{row["row"]}, #{row["name"]}: #{row["reason"]}" }.join("; ") unless missing.empty?
    end

    def failed(reason) = { state: :failed, reason: reason }
    def log(child) = child.log.delete_prefix("#{@root}/")
  end
end
