# frozen_string_literal: true

require "cgi"
require "json"

module Abaca
  class Dashboard
    # The page as it leaves: the same for all, but for what its body's attributes say.
    class Document
      # @param base [String]
      # @param token [String, nil]
      # @param deeds [Array<Hash>]
      # @param help [String]
      # @param numbers [Integer] of workers: a slot beyond is the second one of a number
      def initialize(base:, token:, deeds:, help:, numbers:)
        @data = { base:, token: token.to_s, deeds: JSON.generate(deeds), help:,
                  numbers: numbers.to_s, screens: JSON.generate(screens),
                  history: JSON.generate([:at, *Live::HISTORY]) }
      end

      # @return [String] HTML
      def to_s
        Assets.frame.gsub(/\{\{(\w+)\}\}/) { part(Regexp.last_match(1)) }
      end

      private

      def part(name)
        case name
        when "style" then Assets.style
        when "script" then Assets.script
        when "data" then @data.map { |key, value| %(data-#{key}="#{CGI.escapeHTML(value)}") }.join(" ")
        end
      end

      def screens
        SCREENS.map do |key, screen|
          { key:, title: screen.title, sort: screen.sort, columns: screen.columns.map(&:to_h) }
        end
      end
    end
  end
end
