# frozen_string_literal: true

# The results as a page with charts, a guide, and the README's table and picture. See docs/benchmarks.md.
# Usage: ruby bench/report.rb --help

require "fileutils"
require "optparse"
require_relative "report/reporting"

module Bench
  # The command: reads the results, and writes what the report has.
  module ReportCommand
    module_function

    # @param arguments [Array<String>]
    def run(arguments)
      into = ROOT
      results = Results::DIRECTORY
      OptionParser.new("usage: bin/bench report [options]") do |parser|
        parser.on("--results DIRECTORY", "other results than those of bench/results") { |path| results = path }
        parser.on("--into DIRECTORY", "write everything below it, not to this checkout") { |path| into = path }
      end.parse!(arguments)
      write(Reporting::Book.new(folder: results, last: read(Reporting::Book::FIGURES)), into)
    rescue OptionParser::ParseError, ArgumentError => e
      abort "bench: #{e.message}"
    end

    def write(book, into)
      book.files(readme: read(Reporting::Book::README)).each do |name, text|
        path = File.join(into, name)
        FileUtils.mkdir_p(File.dirname(path))
        File.write(path, text)
        puts "written to #{path.delete_prefix("#{ROOT}/")}"
      end
      unexplained = book.behind.unexplained.map { |row| row.chart.key }
      puts "behind without a reason: #{unexplained.uniq.join(" ")} (#{unexplained.size})" if unexplained.any?
      puts "without a result: #{book.missing.map(&:name).join(" ")}" if book.missing.any?
      plain = book.results.plain.map { |one| one.run.benchmark }
      puts "without a reader: #{plain.join(" ")}" if plain.any?
    end

    def read(name)
      path = File.join(ROOT, name)
      File.read(path) if File.exist?(path)
    end
    private_class_method :write, :read
  end
end

Bench::ReportCommand.run(ARGV) if $PROGRAM_NAME == __FILE__
