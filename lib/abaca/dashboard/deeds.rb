# frozen_string_literal: true

module Abaca
  class Dashboard
    # What can be done from the page: acts of the control server. Each is a POST with a token, after a question.
    module Deeds
      # `on`: what it is done to: a request, a worker or the server. `path`: its address; words in braces are the row's.
      # `chart`: it takes a while, and leaves a chart.
      Deed = Struct.new(:name, :on, :title, :question, :path, :chart, keyword_init: true) do
        # @param path [String]
        # @return [Boolean] whether that is its address, but for the query
        def at?(path) = pattern.match?(path)

        # @return [Boolean] whether a query says what it is done to
        def of_request? = on == :request

        private

        def pattern = @pattern ||= %r{\A/#{path[/[^?]*/].gsub('{number}', '\d{1,4}')}\z}
      end

      PROFILE = "profile?seconds=10&format=svg&kind="
      private_constant :PROFILE

      ALL = [
        Deed.new(name: "cancel", on: :request, title: "Cancel", path: "cancel?id={id}",
                 question: "Cancel this request? Its client gets an error."),
        Deed.new(name: "worker-gc", on: :worker, title: "Collect garbage", path: "workers/{number}/gc",
                 question: "Run the garbage collector in worker {number}? Its requests wait meanwhile."),
        Deed.new(name: "worker-drain", on: :worker, title: "Drain", path: "workers/{number}/drain",
                 question: "Drain worker {number}? It takes no new connections and ends its requests."),
        Deed.new(name: "worker-recycle", on: :worker, title: "Recycle", path: "workers/{number}/recycle",
                 question: "Replace worker {number} by a new one?"),
        Deed.new(name: "profile", on: :server, title: "Profile 10 s: waits", path: "#{PROFILE}wait", chart: true,
                 question: "Look for 10 seconds at where requests wait? It costs each worker some of its time."),
        Deed.new(name: "profile", on: :server, title: "Profile 10 s: stalls", path: "#{PROFILE}stall", chart: true,
                 question: "Look for 10 seconds at what keeps loops? It costs each worker some of its time."),
        Deed.new(name: "phased-restart", on: :server, title: "Phased restart", path: "phased-restart",
                 question: "Replace all workers, one after the other?"),
        Deed.new(name: "restart", on: :server, title: "Restart", path: "restart",
                 question: "Restart the server? Connections wait meanwhile.")
      ].freeze

      # @param path [String] of a POST
      # @return [Deed, nil]
      def self.find(path) = ALL.find { |deed| deed.at?(path) }

      # @yieldparam name [String] of an act
      # @yieldreturn [Boolean] whether there is one, and who asks may have it done
      # @return [Array<Hash>] for the page
      def self.allowed = ALL.select { |deed| yield deed.name }.map(&:to_h)
    end
  end
end
