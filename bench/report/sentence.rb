# frozen_string_literal: true

module Bench
  module Reporting
    # What a chart says, in one plain sentence or two: who leads, by how much, and where Abaca loses. A ratio whose
    # rounds differ more than it differs from one is not stated.
    class Sentence
      # @param chart [Chart]
      def initialize(chart)
        @chart = chart
      end

      # @return [String]
      def to_s
        return without_abaca unless @chart.ours
        return limited if @chart.limited?(own)

        [main, *beside].compact.join(" ")
      end

      private

      def own = @chart.ours
      def own_name = own.title
      def own_figure = @chart.shown(own.value)

      def without_abaca
        best, other = @chart.bars
        return "Nothing could be measured." unless best
        return "#{best.title}: #{@chart.shown(best.value)}." unless other

        ratio = Ratio.new(*(@chart.more? ? [best, other] : [other, best]), exact: @chart.exact?)
        head = "#{best.title} leads with #{@chart.shown(best.value)}; " \
               "#{other.title} is next with #{@chart.shown(other.value)}"
        ratio.stated? ? "#{head}: #{Numbers.ratio(ratio.value)} times." : "#{head}, and they cannot be told apart."
      end

      # More may have been possible: there is nothing to compare.
      def limited
        rival = @chart.peers.first
        other = ", #{rival.name}: #{@chart.shown(rival.value)}" if rival
        "#{own_name}: #{own_figure}#{other}. Abaca's client was busy all the time, so this is what the client can do."
      end

      # Beside the best of those that are not Abaca.
      def main
        rival = @chart.peers.first or return alone
        ratio = @chart.ratio(rival)
        figure = @chart.shown(rival.value)
        return zero(rival, figure) if [own, rival].any? { |bar| bar.value.zero? }
        return "#{own_name}: #{own_figure}, #{rival.name}: #{figure}. #{untold(ratio)}" unless ratio.stated?

        @chart.ahead?(rival) ? behind(rival, ratio, figure) : ahead(rival, ratio, figure)
      end

      # There is no ratio to nothing.
      def zero(rival, figure)
        return "#{own_name} and #{rival.name}: #{own_figure}." if own.value == rival.value

        better, worse = @chart.ahead?(rival) ? [rival.name, own_name] : [own_name, rival.name]
        "#{"Abaca loses: " if @chart.ahead?(rival)}#{better} has " \
          "#{@chart.ahead?(rival) ? figure : own_figure}, #{worse} #{@chart.ahead?(rival) ? own_figure : figure}."
      end

      def alone
        best = @chart.bars.first
        return "#{own_name}: #{own_figure}." if best.equal?(own) && @chart.bars.size == 1

        rest = best.equal?(own) ? "the best of these" : "the best is #{best.title}: #{@chart.shown(best.value)}"
        "#{own_name}: #{own_figure}, #{rest}."
      end

      def ahead(rival, ratio, figure)
        best = @chart.bars.first
        head = best.equal?(own) ? "#{own_name} leads with #{own_figure}" : "#{own_name} has #{own_figure}"
        rest = best.equal?(own) ? nil : " #{best.title} leads with #{@chart.shown(best.value)}."
        "#{head}#{than(rival, ratio, figure)}.#{rest}"
      end

      # Beside the best that is not Abaca.
      def than(rival, ratio, figure)
        if @chart.more?
          ", #{Numbers.ratio(ratio.value)} times as much as #{rival.name}, the best of the others (#{figure})"
        else
          "; #{rival.name}, the best of the others, has #{Numbers.ratio(1 / ratio.value)} times as much (#{figure})"
        end
      end

      def behind(rival, ratio, figure)
        rest = if @chart.more?
                 ", #{Numbers.ratio(1 / ratio.value)} times as much as #{own_name} (#{own_figure})"
               else
                 "; #{own_name} has #{own_figure}, #{Numbers.ratio(ratio.value)} times as much"
               end
        "Abaca loses: #{rival.name} has #{figure}#{rest}."
      end

      def untold(ratio)
        return "One round alone says nothing of a difference." if ratio.alone?
        return "Rounds without any have no ratio." unless ratio.low&.positive?

        return "They cannot be told apart: the rounds' ratios reach from #{reach(ratio)}." unless ratio.sided?

        side = (ratio.high < 1) == @chart.more? ? "behind" : "ahead"
        "Abaca is #{side} in every round, but the ratios reach from #{reach(ratio)}, too far to name one."
      end

      # Beside the lines.
      def beside
        lines = { "limit" => "the floor", "nginx" => "nginx" }.filter_map do |name, title|
          line = @chart.line(name) and [line, title, @chart.ratio(line)]
        end
        told, untold = lines.partition { |_, _, ratio| ratio.stated? }
        times = told.map { |line, title, ratio| "#{Numbers.ratio(ratio.value)} times #{title}#{place(line)}" }
        [("That is #{times.join(" and ")}." if times.any?), *untold.map { |row| alike(*row) }]
      end

      def alike(line, title, ratio)
        return "#{title.sub("the floor", "The floor")} has #{@chart.shown(line.value)}, in one round." if ratio.alone?
        return "It cannot be told from #{title}." unless ratio.sided?

        "In every round it is #{reach(ratio)} times #{title}#{place(line)}."
      end

      def reach(ratio) = [ratio.low, ratio.high].map { |one| Numbers.ratio(one) }.join(" to ")

      def place(line) = (", which is ahead" if line.name == "nginx" && @chart.ahead?(line))
    end
  end
end
