# frozen_string_literal: true

module Bench
  module Pages
    # Runs clients/pages.c: page connections, which send a request as soon as they have an answer, and light ones, which
    # send one at a fixed rate.
    class Load
      PACE = 20 # ms from one light request of a connection to its next one
      WARM = { answers: 300, seconds: 5 }.freeze # for a new process; whichever comes first
      AGAIN = { answers: 300, seconds: 1 }.freeze # for one that has been measured before
      GRACE = 30 # seconds of slack before the client is stopped

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
      # @param patience [Integer] longest time, in seconds, to wait for an answer on every connection before the window
      # @yield when the window begins
      # @yieldreturn [#call] called at the end of the window
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
