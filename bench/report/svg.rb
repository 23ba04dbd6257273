# frozen_string_literal: true

module Bench
  module Reporting
    # Draws a chart: a bar for each row below its name and figure, whiskers from the least to the greatest round, and a
    # line for each of the chart's lines. Widths are shares of the picture's, and letters have their own size, so that
    # it is as readable on a phone as on a desk.
    class Svg
      ROW = 36 # pixels of a row
      NAME = 14 # where its letters stand
      TOP = 20 # where the bar begins
      HIGH = 10 # of the bar
      NOTE = 18 # of a line's legend
      LETTERS = 32 # of a name
      CLASSES = { "limit" => "limit", "nginx" => "nginx" }.freeze # of lines
      REASON = 44 # letters of what keeps one from taking part

      # @param chart [Chart]
      # @param id [String] unique on the page
      def initialize(chart, id: chart.anchor)
        @chart = chart
        @id = id
      end

      # @return [String] an element of HTML
      def to_s
        rows = @chart.bars.each_with_index.map { |bar, nth| row(bar, nth * ROW) }
        missing = @chart.absent.each_with_index.map { |(name, why), nth| absent(name, why, (rows.size + nth) * ROW) }
        <<~SVG
          <svg class="chart#{" alone" if @chart.peers.empty?}" width="100%" height="#{high}" role="img" aria-labelledby="#{@id}-t #{@id}-d">
          <title id="#{@id}-t">#{Text.html(@chart.title)}</title>
          <desc id="#{@id}-d">#{Text.html(description)}</desc>
          #{[*rows, *missing, *lines].join("\n")}
          </svg>
        SVG
      end

      # @return [String] the figures in words
      def description
        rows = @chart.bars.map { |bar| "#{bar.name} #{@chart.shown(bar.value)}" }
        lines = @chart.lines.map { |bar| "#{bar.name} #{@chart.shown(bar.value)}, as a line" }
        absent = @chart.absent.keys.map { |name| "#{name} did not take part" }
        "#{@chart.unit}, #{@chart.more? ? "more" : "less"} is better: #{[*rows, *lines, *absent].join("; ")}."
      end

      private

      def high = ((@chart.bars.size + @chart.absent.size) * ROW) + (@chart.lines.size * NOTE) + 4

      def scale = @scale ||= @chart.scale

      def share(value) = "#{(value / scale.to_f * 100).clamp(0, 100).round(2)}%"

      def row(bar, top)
        <<~ROW.chomp
          <g class="row #{bar.kind}"><text class="name" x="0" y="#{top + NAME}">#{Text.html(Text.cut("#{bar.title}#{@chart.mark(bar)}", LETTERS))}</text>
          <text class="figure" x="100%" y="#{top + NAME}" text-anchor="end">#{@chart.figure(bar.value)}</text>
          <rect class="track" x="0" y="#{top + TOP}" width="100%" height="#{HIGH}" rx="2"/>
          <rect class="bar" x="0" y="#{top + TOP}" width="#{share(bar.value)}" height="#{HIGH}" rx="2"/>#{whisker(bar, top)}</g>
        ROW
      end

      # From the least to the greatest round; without an end where it is cut.
      def whisker(bar, top)
        return "" unless bar.spread?

        low, high = [bar.low, bar.high].map { |value| share(value) }
        middle = top + TOP + (HIGH / 2)
        ends = [low, (high if bar.high <= scale)].compact.map do |at|
          %(<line class="whisker" x1="#{at}" x2="#{at}" y1="#{middle - 3}" y2="#{middle + 3}"/>)
        end
        %(\n<line class="whisker" x1="#{low}" x2="#{high}" y1="#{middle}" y2="#{middle}"/>#{ends.join})
      end

      def absent(name, why, top)
        <<~ROW.chomp
          <g class="row absent"><text class="name" x="0" y="#{top + NAME}">#{Text.html(Text.cut(name, LETTERS))}</text>
          <text class="why" x="0" y="#{top + NAME + 15}">#{Text.html(Text.cut(why, REASON))}</text></g>
        ROW
      end

      # Over the bars, and below them what they are.
      def lines
        below = (@chart.bars.size + @chart.absent.size) * ROW
        @chart.lines.each_with_index.map do |line, nth|
          strokes = @chart.bars.each_index.map do |row|
            top = (row * ROW) + TOP
            place = %(x1="#{share(line.value)}" x2="#{share(line.value)}" y1="#{top - 2}" y2="#{top + HIGH + 2}")
            "<line class=\"halo\" #{place}/><line #{place}/>"
          end
          y = below + (nth * NOTE) + 14
          sample = %(<line x1="1" x2="19" y1="#{y - 4}" y2="#{y - 4}"/>)
          %(<g class="line #{CLASSES.fetch(line.name.split.first, "ideal")}">#{strokes.join}#{sample}) +
            %(<text x="26" y="#{y}">#{Text.html(legend(line))}</text></g>)
        end
      end

      def legend(line)
        name = line.name.start_with?("limit") ? "limit, the floor" : Text.cut(line.name, LETTERS)
        "#{name}: #{@chart.shown(line.value)}"
      end
    end
  end
end
