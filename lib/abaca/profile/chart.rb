# frozen_string_literal: true

require "cgi/escape"
require "digest"
require_relative "../version"

module Abaca
  class Profile
    # A flame chart as one SVG page, which needs nothing from elsewhere: a box for each frame, as wide as the time that
    # was spent there, below the frame that has called it. A click or Enter widens a box to the whole; what is searched
    # for is marked. Frames and routes are text, and never become markup.
    class Chart < Form
      # Boxes; a narrower one cannot be seen.
      MOST = 4_000
      # Of the picture, in its own units.
      WIDE = 1200
      HIGH = 18
      TOP = 92
      LETTER = 6.6
      private_constant :MOST, :WIDE, :HIGH, :TOP, :LETTER

      class << self
        # @return [String] the script in it
        def script = @script ||= read("chart.js")

        # @return [String] its styles
        def style = @style ||= read("chart.css")

        # @return [String] the field Content-Security-Policy
        def policy
          @policy ||= ["default-src 'none'", "script-src #{digest(script)}", "style-src #{digest(style)}",
                       "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"].join("; ")
        end

        private

        def read(name) = File.read(File.join(__dir__, name), encoding: "UTF-8").freeze

        def digest(text) = "'sha256-#{Digest::SHA256.base64digest(text)}'"
      end

      # As Form.
      def type = "image/svg+xml; charset=utf-8"

      # As Form.
      def fields
        { "Content-Security-Policy" => self.class.policy, "Referrer-Policy" => "no-referrer",
          "X-Frame-Options" => "DENY", "Cross-Origin-Resource-Policy" => "same-origin" }
      end

      # @return [String]
      def text
        boxes = Tree.new(@profile).boxes(MOST)
        high = TOP + (((boxes.map(&:depth).max || 0) + 1) * HIGH) + 10
        [head(high), *notes, search, '<g id="boxes">', *boxes.map { |box| box(box) }, "</g>",
         "<script><![CDATA[#{self.class.script}]]></script>", "</svg>\n"].join("\n")
      end

      private

      def safe(text) = CGI.escapeHTML(Log::Text.line(text))

      def head(high)
        <<~SVG.chomp
          <?xml version="1.0" encoding="UTF-8"?>
          <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 #{WIDE} #{high}" width="100%" preserveAspectRatio="xMinYMin" role="document" aria-labelledby="title desc" lang="en">
          <title id="title">#{safe("Abaca: #{@profile.kind} profile")}</title>
          <desc id="desc">#{safe(summary)}</desc>
          <style>#{self.class.style}</style>
          <text class="title" x="6" y="22">#{safe("Abaca #{VERSION}: #{@profile.kind} profile")}</text>
          <text x="6" y="42">#{safe(@profile.title)}</text>
        SVG
      end

      # For those who do not see it.
      def summary
        longest = @profile.merged.first(5).map do |stack|
          "#{stack.seconds.round(3)} s #{stack.state} at #{stack.place} (#{stack.label})"
        end
        [@profile.title, *@profile.notes, *("Longest: #{longest.join('; ')}" if longest.any?)].join(". ")
      end

      def notes
        return [] if @profile.missing.empty?

        [%(<text class="alarm" x="6" y="60">#{safe(@profile.notes.join('; ')[0, 180])}</text>)]
      end

      def search
        %(<foreignObject x="#{WIDE - 260}" y="6" width="254" height="30">) +
          '<input xmlns="http://www.w3.org/1999/xhtml" type="search" id="search" placeholder="search" ' \
          'aria-label="Mark frames that have this text"/></foreignObject>' \
          "\n" + %(<text id="found" x="#{WIDE - 260}" y="56" role="status"></text>) +
          %(<text id="detail" x="6" y="#{TOP - 10}" role="status">#{safe('Click or Enter: widen. Esc: all.')}</text>)
      end

      def box(box)
        at, wide = [box.at, box.wide].map { |share| (share * WIDE).round(2) }
        label = "#{box.name}: #{box.seconds.round(3)} s, #{(box.wide * 100).round(1)}%"
        x = at
        y = TOP + (box.depth * HIGH)
        %(<g class="box" tabindex="0" role="button" aria-label="#{safe(label)}" data-x="#{at}" data-w="#{wide}" ) +
          %(data-d="#{box.depth}"><title>#{safe(label)}</title><rect x="#{x}" y="#{y}" width="#{wide}" ) +
          %(height="#{HIGH - 1}" fill="#{colour(box)}"/><text x="#{(x + 3).round(2)}" y="#{y + 13}" ) +
          %(data-name="#{safe(box.name)}">#{safe(cut(box.name, wide))}</text></g>)
      end

      # What was waited for has one colour, a frame that of its file.
      def colour(box)
        hue = Digest::SHA256.digest(box.name[/\A[^:]*/]).unpack1("n") % 55
        box.name.start_with?("[") ? "hsl(#{190 + hue},55%,72%)" : "hsl(#{15 + hue},75%,72%)"
      end

      def cut(name, wide)
        room = ((wide - 6) / LETTER).floor
        return "" if room < 3

        name.size <= room ? name : "#{name[0, room - 2]}.."
      end
    end
  end
end
