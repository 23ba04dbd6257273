# frozen_string_literal: true

require "json"
require_relative "puma_stats"

module Abaca
  class Control
    # What the watch answers by itself, from the page and the configuration.
    #
    # The figures of a cluster are all in the page. A single process has some that only its Ruby knows: it is asked for
    # all of them, and where it does not answer in time, those of the page are of now, and the others as they were when
    # it answered last.
    class Looks
      # Seconds for an answer.
      TIME = 0.15
      private_constant :TIME

      # @param config [Config]
      # @param slots [Launcher::Cluster::Slots, Launcher::OnlySlot] the page
      # @param launcher [Questions]
      def initialize(config, slots, launcher)
        @config = config
        @slots = slots
        @launcher = launcher
        @asks = !clustered? || config.binds.any?(&:tls) # whose certificates the launcher knows
      end

      # @return [Hash{Symbol => Object}] in Puma's shape
      def stats
        ask if @asks
        page = @slots.stats(@config)
        known = @known or return page
        return page.merge(abaca: page[:abaca].merge(known[:abaca].slice(:certificates))) if clustered?

        @fresh ? known : known.merge(page, abaca: known[:abaca].merge(page[:abaca]))
      end

      # @return [Hash{Symbol => Object}] the workers; a single process is one
      def workers = PumaStats.workers(stats, pid: @slots.page[0].pid)

      # @return [Hash{Symbol => Object}] the settings in force, without secrets, and where they come from
      def config = { config: Config::Report.new(@config).to_h }

      private

      def clustered? = @config[:workers].positive?

      def ask
        answer = @launcher.ask("stats", within: TIME)
        @fresh = answer&.status == 200
        @known = JSON.parse(answer.body, symbolize_names: true) if @fresh
      end
    end
  end
end
