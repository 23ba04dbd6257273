# frozen_string_literal: true

module Bench
  module Reporting
    # One question with the answers of all that took part, from one run.
    class Chart
      # The first words of rows that are drawn as lines: the floor, and the server that answers from its configuration.
      LINES = %w[limit nginx].freeze
      CUT = 1.5

      # @return [String] "servers/ka64": the benchmark, and the part of it
      attr_reader :key
      # @return [String]
      attr_reader :title, :unit, :ruby
      # @return [Run]
      attr_reader :run
      # @return [Array<Bar>] the best one first
      attr_reader :bars
      # @return [Array<Bar>] the floor, nginx, or what would be ideal
      attr_reader :lines
      # @return [Hash{String => String}] who could not take part, and why
      attr_reader :absent

      # What may be given beside the rest: whether `better` is :less or :more; `lines` beside those of LINES; who is
      # `absent`, and why; the name of the row that is `ours`, by default the first of Abaca's; whether it is `exact`:
      # counted, not timed, so that one round is enough; the description of this `part`'s Ruby; what it `says` instead
      # of the sentence that compares Abaca with others; and the `row` of the run's account.
      OPTIONS = { better: :less, lines: [], absent: {}, ours: nil, exact: false, part: nil, says: nil, row: nil }.freeze

      # @param bars [Array<Bar>] in any order; those of LINES become lines
      # @param options [Hash] of OPTIONS
      # @raise [KeyError] for another one
      def initialize(run:, key:, title:, unit:, bars:, **options)
        options.each_key { |name| OPTIONS.fetch(name) }
        @run = run
        @key = "#{run.benchmark}/#{key}"
        @title = title
        @unit = unit
        @options = OPTIONS.merge(options)
        @ruby = run.ruby(@options[:part])
        @absent = @options[:absent].to_h.reject { |name, _| other_checkout?(name) }
        sort(bars.select { |bar| bar.value && !other_checkout?(bar.name) })
      end

      def benchmark = run.benchmark
      def more? = @options[:better] == :more
      def exact? = @options[:exact]
      def facts = run.facts(@options[:part])

      # @return [String] unique on the page
      def anchor = Text.anchor("#{key} #{ruby}")

      # @return [Bar, nil] Abaca
      def ours = bars.find { |bar| bar.name == @ours } || bars.find(&:ours?)

      # @return [Array<Bar>] who else took part, without the floor
      def peers = bars.reject(&:ours?)

      # @return [Bar, nil]
      def line(name) = lines.find { |bar| bar.name.split.first == name }

      # @return [Ratio] of Abaca to another
      def ratio(other) = Ratio.new(ours, other, exact: exact?)

      # @return [Boolean] whether this one's figure is better than Abaca's
      def ahead?(other) = more? ? other.value > ours.value : other.value < ours.value

      # @return [String] a figure; what is counted has no decimals, if it needs none
      def figure(value) = exact? && value && (value % 1).zero? ? Numbers.count(value) : Numbers.short(value)

      # @return [String] a figure with the first word of its unit
      def shown(value) = "#{figure(value)} #{unit[/\A[^\s,]+/]}".strip

      # @return [String] what it says, in plain words
      def sentence = @options[:says] || Sentence.new(self).to_s

      # @return [Numeric] what the whole width of a picture stands for: rounds far beyond the greatest median are cut
      def scale
        medians = [*bars, *lines].map(&:value)
        most = bars.map(&:high).max.clamp(medians.max, medians.max * CUT)
        most.positive? ? most : 1
      end

      # @return [String] what the run says of this row: most of its turns were disturbed, or its client at its limit
      def mark(bar) = run.account.mark(*(bar.turns || [@options[:row] || key.split("/").last, bar.name]))

      # @return [Boolean] whether its figure is what the client could do, not the server
      def limited?(bar) = unit.start_with?("requests/s") && mark(bar).include?(Account::LIMITED)

      # @return [Boolean] whether there is anything to draw
      def empty? = bars.empty?

      private

      def sort(known)
        drawn, rows = known.partition { |bar| LINES.include?(bar.name.split.first) }
        @lines = drawn + @options[:lines]
        @bars = rows.sort_by { |bar| more? ? -bar.value : bar.value }
        @ours = @options[:ours] || known.find(&:ours?)&.name
      end

      # Another checkout of Abaca is compared elsewhere (--against).
      def other_checkout?(name) = run.against && name.start_with?(run.against)
    end
  end
end
