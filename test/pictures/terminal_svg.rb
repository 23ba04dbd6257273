# frozen_string_literal: true

require "cgi"

# A terminal's screen as an SVG: what tmux has captured with attributes, in the reader's own light or dark colours.
class TerminalSvg
  # Pixels of a character, and around the screen.
  WIDE = 8.4
  HIGH = 18
  EDGE = 12
  # Attributes of a terminal, by their numbers, as classes.
  CLASSES = { 1 => "bold", 2 => "faint", 7 => "chosen", 31 => "alarm" }.freeze
  STYLE = <<~CSS.gsub(/\s+/, " ").strip
    .screen { fill: #fbfbf8; stroke: #c9c9c2; } text { font: 14px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas,
    monospace; fill: #1d1f21; white-space: pre; } .bold { font-weight: bold; } .faint { fill: #6a6a64; }
    .alarm { fill: #b3140e; font-weight: bold; } rect.chosen { fill: #1d1f21; } text.chosen { fill: #fbfbf8; }
    @media (prefers-color-scheme: dark) { .screen { fill: #1d1f21; stroke: #44474a; } text { fill: #e6e6e0; }
    .faint { fill: #a2a29b; } .alarm { fill: #ff7b72; } rect.chosen { fill: #e6e6e0; } text.chosen { fill: #1d1f21; } }
  CSS
  private_constant :WIDE, :HIGH, :EDGE, :CLASSES, :STYLE

  # @param text [String] lines with attributes, as `tmux capture-pane -p -e` has them
  # @param columns [Integer]
  # @param title [String] for those who do not see it
  def initialize(text, columns:, title:)
    @lines = text.lines(chomp: true)
    @lines.pop while @lines.last&.empty?
    @columns = columns
    @title = title
  end

  # @return [String]
  def to_s
    width = (@columns * WIDE) + (2 * EDGE)
    height = (@lines.size * HIGH) + (2 * EDGE)
    <<~SVG
      <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 #{width.round} #{height}" width="#{width.round}" height="#{height}" role="img" aria-label="#{CGI.escapeHTML(@title)}">
      <title>#{CGI.escapeHTML(@title)}</title>
      <style>#{STYLE}</style>
      <rect class="screen" x="0.5" y="0.5" width="#{width.round - 1}" height="#{height - 1}" rx="6"/>
      #{@lines.each_with_index.map { |line, i| line(line, i) }.join("\n")}
      </svg>
    SVG
  end

  private

  # Pieces of one look each, where they stand.
  def line(text, number)
    column = 0
    pieces(text).map do |piece, look|
      shown = piece(piece, look, column, number) unless piece.strip.empty? && look != "chosen"
      column += piece.size
      shown
    end.join
  end

  # An attribute holds until there is another one, on the next line too.
  def pieces(text)
    text.split(/(\e\[[\d;]*m)/).filter_map do |part|
      next ([part, @look] unless part.empty?) unless part.start_with?("\e")

      @look = CLASSES.values_at(*part.scan(/\d+/).map(&:to_i)).compact.last
      nil
    end
  end

  def piece(text, look, column, number)
    x = (EDGE + (column * WIDE)).round(1)
    y = EDGE + (number * HIGH)
    wide = (text.size * WIDE).round(1)
    kind = %( class="#{look}") if look
    back = %(<rect class="chosen" x="#{x}" y="#{y}" width="#{wide}" height="#{HIGH}"/>) if look == "chosen"
    text = CGI.escapeHTML(text)
    %(#{back}<text#{kind} x="#{x}" y="#{y + 14}" textLength="#{wide}" xml:space="preserve">#{text}</text>)
  end
end
