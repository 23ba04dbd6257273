# frozen_string_literal: true

require "digest"

module Bench
  module Reporting
    # The report as one page of HTML, which needs nothing from elsewhere and runs nothing.
    class Page
      STYLE = File.read(File.join(__dir__, "page.css")).freeze

      # @return [Book]
      attr_reader :book

      # @param book [Book]
      def initialize(book)
        @book = book
      end

      # @return [String]
      def to_s = Template.render("page.html.erb", self)

      private

      def safe(text) = Text.html(text)

      def style = STYLE

      # Nothing but these styles.
      def policy = "default-src 'none'; style-src 'sha256-#{Digest::SHA256.base64digest(STYLE)}'"

      # `code` in a text.
      def prose(text) = safe(text).gsub(/`(.+?)`/, '<code>\1</code>')

      def card(chart) = Template.render("card.html.erb", Card.new(chart))
    end
  end
end
