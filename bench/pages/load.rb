# frozen_string_literal: true

module Bench
  module Pages
    # Load by clients/pages.c: connections that ask for a page again as soon as they are answered, and others that ask
    # for something light at a fixed pace.
    class Load
      PACE = 20 # ms from one light request of a connection to its next one
      WARM = { answers: 300, seconds: 5 }.freeze # a young process; whichever comes first
      AGAIN = { answers: 300, seconds: 1 }.freeze # one that has been under load
      GRACE = 30 # seconds beyond those that it may take

      # @param port [Integer]
      # @param page [String] path
      # @param light [String] path
      # @param prefix [Array<String>] begins the command
      def initialize(port:, page:, light: "/", prefix: [])
        @port = port
        @page = page
        @light = light
        @prefix = prefix
      end

      # @param pages [Integer] connections
      # @param lights [Integer] connections
      # @param seconds [Integer] of the window
      # @param warm [Hash] answers and seconds before the window
      # @param patience [Integer] seconds that the window is put off at most, until each connection has an answer
      # @yield when the window begins
      # @yieldreturn [#call] what is called when it is over
      # @return [Hash{Symbol => Integer}] what the client prints
      # @raise [Failed]
      def run(pages:, seconds:, lights: 0, warm: AGAIN, patience: 10)
        words = [@port, seconds, pages, @page, lights, @light, PACE, *warm.values_at(:answers, :seconds), patience]
        limit = seconds + warm[:seconds] + patience + GRACE
        Client.figures("pages", *words.map(&:to_s), limit: limit, prefix: @prefix) do |talk|
          expect("warm", talk)
          over = yield
          talk.puts
          expect("over", talk)
          over.call
        end
      end

      private

      def expect(word, talk)
        said = talk.gets.to_s.strip
        raise Failed, "pages: #{said.empty? ? "no word" : said}" unless said == word
      end
    end
  end
end
