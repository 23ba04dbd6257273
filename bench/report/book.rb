# frozen_string_literal: true

module Bench
  module Reporting
    # All that a report says, and the files that it is written to.
    class Book
      PAGE = "bench/results/report.html"
      SUMMARY = "bench/results/report.md"
      FIGURES = "bench/results/#{Figures::FILE}".freeze
      GUIDE = "docs/benchmarks.md"
      PICTURE = "docs/benchmarks.svg"
      README = "README.md"

      # @return [ResultsFolder]
      attr_reader :results
      # @return [Array<Scenario>]
      attr_reader :scenarios
      # @return [Array<Figures::Row>]
      attr_reader :figures

      # @param folder [String] of the results
      # @param last [String, nil] the figures of the last report, as they were written
      def initialize(folder: Results::DIRECTORY, last: nil)
        @results = ResultsFolder.new(folder)
        @scenarios = Scenarios.all(@results)
        @figures = Figures.of(@results.charts, last: last ? Figures.read(last) : [])
      end

      def measured = scenarios.select(&:measured?)
      def missing = scenarios.select { |one| !one.measured? && File.exist?(File.join(DIR, "#{one.name}.rb")) }
      def suites = Suites.of(results.runs)
      def behind = @behind ||= Behind.new(measured)
      def changes = @changes ||= Changes.new(figures, results.charts)
      def sources = @sources ||= Published.new(results).sources

      # @return [String] the days of all results, from the first to the last
      def days
        first, last = results.runs.minmax_by(&:time).map(&:date)
        first == last ? first : "#{first} to #{last}"
      end

      # @param readme [String] as it is
      # @return [Hash{String => String}] what each file holds, by its path
      def files(readme:)
        pages = { PAGE => Page.new(self).to_s, SUMMARY => Markdown.new(self).summary, FIGURES => Figures.write(figures),
                  GUIDE => Markdown.new(self).guide }
        front = Front.new(results)
        return pages unless front.any?

        pages.merge(PICTURE => front.picture, README => front.place(readme))
      end
    end
  end
end
