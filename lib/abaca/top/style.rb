# frozen_string_literal: true

module Abaca
  class Top
    # What a mark looks like on this terminal.
    class Style
      BOLD = "\e[1m"
      LOOKS = { alarm: "\e[31m", faint: "\e[2m", title: BOLD, chosen: "\e[7m" }.freeze
      PLAIN = LOOKS.merge(alarm: BOLD).freeze
      RESET = "\e[m"
      private_constant :BOLD, :LOOKS, :PLAIN, :RESET

      # @return [Boolean] whether only ASCII may be shown
      attr_reader :ascii
      # @return [Boolean] whether there are no attributes at all
      attr_reader :dumb

      # @param env [#[]] the environment's variables
      # @param terminal [Boolean] whether the output is one
      def self.of(env, terminal:)
        locale = %w[LC_ALL LC_CTYPE LANG].map { |name| env[name].to_s }.find { |value| !value.empty? }.to_s
        new(ascii: !locale.match?(/utf-?8/i), color: env["NO_COLOR"].to_s.empty?,
            dumb: !terminal || ["", "dumb"].include?(env["TERM"].to_s))
      end

      def initialize(ascii: false, color: true, dumb: false)
        @ascii = ascii
        @looks = color ? LOOKS : PLAIN
        @dumb = dumb
      end

      # @param text [String]
      # @param mark [Symbol, nil]
      # @return [String]
      def paint(text, mark)
        look = @looks[mark] unless @dumb
        look ? "#{look}#{text}#{RESET}" : text
      end
    end
  end
end
