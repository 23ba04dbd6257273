# frozen_string_literal: true

module Bench
  module Reporting
    # The picture of the README: a few charts of one run, one below the other, as a file of its own.
    class Picture
      WIDE = 680
      LEFT = 96 # where bars begin
      BAR = 500 # the longest one
      ROW = 24
      HEAD = 56 # of the picture
      TITLE = 30 # of a chart
      FOOT = 34 # with the lines' legend
      GAP = 14

      STYLE = <<~CSS
        svg { background: #fff; font: 14px system-ui, sans-serif; }
        text { fill: #1b1f24; }
        .title { font-size: 16px; font-weight: 650; }
        .faint, .faint text { fill: #59636e; font-size: 12.5px; }
        .part, .ours text { font-weight: 650; }
        .bar { fill: #7c8794; }
        .ours .bar { fill: #0a58c2; }
        .other .bar { fill: #b0793c; }
        .whisker { stroke: #1b1f24; stroke-width: 1.2; }
        .halo { stroke: #fff; stroke-width: 3.6; }
        .line { stroke: #b3261e; stroke-width: 1.6; stroke-dasharray: 4 3; }
        .nginx { stroke: #16703a; stroke-dasharray: 7 3; }
        @media (prefers-color-scheme: dark) {
          svg { background: #1d2126; }
          text { fill: #e6e9ed; }
          .faint, .faint text { fill: #9aa4af; }
          .bar { fill: #7f8b98; }
          .ours .bar { fill: #5b9df5; }
          .other .bar { fill: #c99a50; }
          .whisker { stroke: #f2f4f6; }
          .halo { stroke: #1d2126; }
          .line { stroke: #ff8a80; }
          .nginx { stroke: #6fce93; }
        }
      CSS

      # @param charts [Array<Chart>] of one run
      # @param title [String]
      def initialize(charts, title:)
        @charts = charts
        @title = title
      end

      # @return [String] an SVG document
      def to_s
        top = HEAD
        parts = @charts.map { |chart| part(chart, top).tap { top += height(chart) } }
        <<~SVG
          <?xml version="1.0" encoding="UTF-8"?>
          <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 #{WIDE} #{top}" width="#{WIDE}" height="#{top}" role="img" aria-labelledby="title desc">
          <title id="title">#{Text.html(@title)}</title>
          <desc id="desc">#{Text.html(description)}</desc>
          <style>#{STYLE}</style>
          <text class="title" x="16" y="28">#{Text.html(@title)}</text>
          <text class="faint" x="16" y="47">#{Text.html(facts)}</text>
          #{parts.join("\n")}
          </svg>
        SVG
      end

      private

      def description = @charts.map { |chart| "#{chart.title}: #{Svg.new(chart).description}" }.join(" ")

      def facts
        run = @charts.first.run
        "#{run.date}, #{run.machine["cpu"]}, #{run.machine["cpus"]} CPUs, Ruby #{run.ruby}; less is better"
      end

      def height(chart) = TITLE + (chart.bars.size * ROW) + FOOT + GAP

      def part(chart, top)
        most = chart.scale.to_f
        rows = chart.bars.each_with_index.map { |bar, nth| row(bar, top + TITLE + (nth * ROW), most) }
        title = %(<text class="part" x="16" y="#{top + 18}">#{Text.html(chart.title)}</text>)
        [title, *rows, *lines(chart, top + TITLE, most)].join("\n")
      end

      def row(bar, top, most)
        wide = wide(bar.value, most)
        past = [wide, bar.spread? ? wide([bar.high, most].min, most) : 0].max
        <<~ROW.chomp
          <g class="#{bar.kind}"><text x="#{LEFT - 10}" y="#{top + 15}" text-anchor="end">#{Text.html(Text.cut(bar.title, 12))}</text>
          <rect class="bar" x="#{LEFT}" y="#{top + 4}" width="#{wide}" height="14" rx="2"/>#{whisker(bar, top + 11, most)}
          <text x="#{(LEFT + past + 8).round(1)}" y="#{top + 15}">#{Numbers.short(bar.value)}</text></g>
        ROW
      end

      def wide(value, most) = (value / most * BAR).round(1)

      def whisker(bar, middle, most)
        return "" unless bar.spread?

        low, high = [bar.low, [bar.high, most].min].map { |value| (LEFT + wide(value, most)).round(1) }
        stop = "M#{high} #{middle - 3}v6" if bar.high <= most
        %(<path class="whisker" fill="none" d="M#{low} #{middle}H#{high}M#{low} #{middle - 3}v6#{stop}"/>)
      end

      # Over all bars of the chart, and what they are.
      def lines(chart, top, most)
        bottom = top + (chart.bars.size * ROW)
        at = LEFT
        chart.lines.map do |line|
          x = (LEFT + wide(line.value, most)).round(1)
          text = "#{line.name.start_with?("limit") ? "limit, the floor" : line.name}: #{Numbers.short(line.value)}"
          mark = %(<path class="halo" d="M#{x} #{top}V#{bottom}"/>) +
                 %(<path class="line #{Text.html(line.name.split.first)}" fill="none" ) +
                 %(d="M#{x} #{top}V#{bottom}M#{at} #{bottom + 14}h22"/>) +
                 %(<text class="faint" x="#{at + 30}" y="#{bottom + 18}">#{Text.html(text)}</text>)
          at += 190
          mark
        end
      end
    end
  end
end
