# frozen_string_literal: true

require "erb"

module Bench
  module Reporting
    # Names and reasons come from gems, servers and files: they are text, and never become markup.
    module Text
      # What neither XML nor a terminal should get.
      CONTROL = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufffe\uffff]/

      module_function

      # @param text [Object]
      # @return [String] one line without control characters
      def line(text) = text.to_s.encode("UTF-8", invalid: :replace, undef: :replace).scrub.gsub(CONTROL, " ").strip

      # @return [String] for an element or an attribute of HTML or XML
      def html(text) = ERB::Util.html_escape(line(text))

      # @return [String] for a cell or a sentence of a Markdown page
      def markdown(text) = line(text).gsub(/[\\|`*_\[\]]/) { |sign| "\\#{sign}" }.gsub("&", "&amp;").gsub("<", "&lt;")

      # @param most [Integer] characters
      # @return [String] no longer than that
      def cut(text, most) = line(text).then { |whole| whole.size <= most ? whole : "#{whole[0, most - 1]}…" }

      # @return [String] of a name, for an address within the page
      def anchor(text) = line(text).downcase.gsub(/[^a-z0-9]+/, "-").gsub(/\A-|-\z/, "")
    end
  end
end
