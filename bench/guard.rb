# frozen_string_literal: true

# Objects, mallocs, system calls and instructions of a request, against bench/baseline.json. See README.md.
# Usage: ruby bench/guard.rb --help

require "tmpdir"
require_relative "support/bench"
require_relative "guard/baseline"
require_relative "guard/rows"

module Bench
  # Counts the rows, compares them with the baseline, and says what has become more.
  class Guard
    # How many functions --against shows for each row.
    FUNCTIONS = 10

    # @return [String] for a person
    def self.figure(number) = format("%g", number.abs < 1000 ? number.round(2) : number.round)

    def initialize(arguments)
      @rows = Rows::ALL.keys
      @path = Baseline::PATH
      parser.parse!(arguments)
      unknown = @rows - Rows::ALL.keys
      raise ArgumentError, "no row #{unknown.first}; there are #{Rows::ALL.keys.join(", ")}" if unknown.any?
    end

    # @return [Boolean] whether nothing has become more
    def run
      unless Machine.output_of("valgrind", "--version")
        raise Unavailable, "valgrind is not installed (apt-get install valgrind libc6-dbg)"
      end

      counts = count(ROOT, around: @around)
      return show_against(counts) if @against

      baseline = Baseline.new(@path)
      puts table(counts, baseline)
      return update(baseline, counts) if @update

      judge(baseline, counts)
    end

    private

    def parser
      OptionParser.new("usage: bin/bench guard [options]") do |parser|
        parser.on("--rows A,B", Array, "these rows (all): #{Rows::ALL.keys.join(", ")}") { |names| @rows = names }
        parser.on("--alone", "count only them: quicker, but not to be compared with a baseline of more") do
          @alone = true
        end
        parser.on("--update", "write what was counted to the baseline") { @update = true }
        parser.on("--against DIRECTORY", "another checkout, compiled, in place of the baseline: which functions do " \
                                         "more") { |directory| @against = Against.new(directory) }
        parser.on("--baseline FILE", "another file than bench/baseline.json") { |path| @path = path }
        parser.on("--around FILE", "a lambda around the app, as the tests have it") do |path|
          @around = File.expand_path(path)
        end
        parser.on("--keep DIRECTORY", "leave callgrind's files there, for callgrind_annotate") { |path| @keep = path }
      end
    end

    def count(root, around: nil)
      return Dir.mktmpdir { |folder| count_in(folder, root, around) } unless @keep

      folder = File.expand_path(root == ROOT ? "this" : "other", @keep)
      FileUtils.mkdir_p(folder)
      count_in(folder, root, around)
    end

    def count_in(folder, root, around)
      Rows.new(@rows, root: root, around: around, folder: folder, alone: @alone).count
    end

    def table(counts, baseline)
      table = Table.new(["row", *Counts::NAMES.values, "baseline", "is"])
      counts.each do |row, count|
        figures = count.to_h
        before = baseline.figures(row)[:instructions]
        table.add(row, *Counts::NAMES.keys.map { |name| figures[name] && Guard.figure(figures[name]) },
                  before && format("%+.2f %%", (figures[:instructions] / before.to_f * 100) - 100),
                  Rows::ALL.fetch(row).text)
      end
      (@rows - counts.keys).each { |row| table.note(row, "Abaca was compiled without the library") }
      table.to_s
    end

    def update(baseline, counts)
      baseline.update(counts)
      puts "", "written to #{@path.delete_prefix("#{ROOT}/")}, for #{baseline.kind}"
      true
    end

    def judge(baseline, counts)
      unless baseline.known?
        puts "", "not compared: no baseline for #{baseline.kind} (--update writes it)"
        return true
      end

      worse, better = baseline.changes(counts).partition(&:worse?)
      puts "", better.map { |change| "less: #{change}" }, "--update keeps what has become less" if better.any?
      return true if worse.empty?

      puts "", worse.map { |change| "more: #{change}" }, baseline.others.map { |other| "note: #{other}" },
           "more than #{(Baseline::LIMIT * 100).round} % above the baseline for #{baseline.kind}. Which functions: " \
           "--against. If it is meant: --update, in a commit that says why."
      false
    end

    def show_against(counts)
      before = count(@against.root)
      (counts.keys & before.keys).each do |row|
        puts "", "#{row}: #{Counts::NAMES.map do |name, text|
          "#{text} #{[before, counts].map { |all| all[row].to_h[name] }.compact.join(" -> ")}"
        end.join(", ")}"
        more = counts[row] - before[row]
        [more.calls, more.functions].each { |changes| puts functions(changes) }
      end
      true
    end

    # Those that changed most.
    def functions(changes)
      changes = changes.transform_values { |value| value.round(1) }.reject { |_, value| value.zero? }
      most = changes.sort_by { |_, value| -value.abs }.first(FUNCTIONS)
      most.map { |name, value| "#{format("%+g", value).rjust(12)}  #{name}" }
    end
  end
end

begin
  exit(Bench::Guard.new(ARGV).run) if $PROGRAM_NAME == __FILE__
rescue Bench::Unavailable, Bench::Failed, ArgumentError, OptionParser::ParseError => e
  abort "bench: #{e.message}"
end
