# frozen_string_literal: true

require_relative "answer"
require_relative "puma_stats"

module Abaca
  class Control
    # What a control server can be asked for: Puma's commands with Puma's answers, and looks of our own. What the page
    # has is answered from there; the launcher does the rest.
    class Commands
      # Puma's.
      PUMAS = %w[stop halt restart phased-restart refork reload-worker-directory gc gc-stats stats
                 thread-backtraces].freeze
      # Ours, for which a token in the query is not enough.
      OURS = %w[workers dump reload-certificates].freeze
      # Those that `data_only` leaves.
      DATA = %w[stats gc-stats workers].freeze
      # Seconds for what the launcher does.
      TIME = 30
      private_constant :PUMAS, :OURS, :DATA, :TIME

      # @param launcher [Questions, Acts]
      # @param figures [Figures, nil] nil: the launcher is asked for them
      # @param data_only [Boolean] whether nothing can be done but read figures
      def initialize(launcher, figures: nil, data_only: false)
        @launcher = launcher
        @figures = figures
        @data_only = data_only
      end

      # @param path [String] of a request: its last segment is the command
      # @return [String] the command
      def name(path) = path[%r{[^/]*\z}]

      # @param command [String]
      # @return [Boolean] whether Puma has it too, and its clients send the token in the query
      def pumas?(command) = !OURS.include?(command)

      # @param command [String]
      # @return [Answer]
      def answer(command)
        return Answer.text(404, "Command #{command.inspect} unavailable") if @data_only && !DATA.include?(command)

        case command
        when "stats" then stats
        when "workers" then Answer.json(workers)
        when *PUMAS, *OURS then ask(command)
        else Answer.text(404, "Unsupported action")
        end
      end

      private

      def ask(command)
        @launcher.ask(command, within: TIME) ||
          Answer.json({ error: "the server has not answered in time: #{command} is not done" }, status: 504)
      end

      def stats = @figures ? Answer.json(@figures.stats) : ask("stats")

      def workers
        @figures ? @figures.workers : PumaStats.workers(JSON.parse(ask("stats").body, symbolize_names: true))
      end
    end
  end
end
