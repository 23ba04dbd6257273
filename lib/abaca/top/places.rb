# frozen_string_literal: true

module Abaca
  class Top
    # Where the oldest requests are, by the app's lines. Only their processes know: they are asked by the control
    # server, on a thread of its own, so that a look never waits for them.
    class Places
      # Requests that are asked for, and seconds for the answer.
      MOST = 100
      PATIENCE = 2
      private_constant :MOST, :PATIENCE

      # @param server [Server]
      def initialize(server)
        @server = server
        @latest = {}
      end

      # Asks, unless it still waits for an answer.
      #
      # @return [Hash{String => String}] what the last answer said, by the ids of requests
      def look
        @thread = Thread.new { ask } if @server.target.control_url && !@thread&.alive?
        @latest
      end

      # Waits for what #look has asked for.
      #
      # @return [Hash{String => String}]
      def wait
        look
        @thread&.join
        @latest
      end

      private

      def ask
        require "json" # where there is a control server
        reply = @server.control.call("GET", "/requests?frames=1&most=#{MOST}", within: PATIENCE,
                                                                               token: @server.target.control_token)
        return unless reply.status == 200

        rows = JSON.parse(reply.body, symbolize_names: true).fetch(:requests)
        @latest = rows.to_h { |row| [row[:id], row[:pending] ? Sight::Stalls::PENDING : row[:line]] }.compact
      rescue Control::Client::Failed, ConfigError, JSON::ParserError, KeyError
        @latest = {}
      end
    end
  end
end
