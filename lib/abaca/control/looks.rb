# frozen_string_literal: true

require "json"
require_relative "puma_stats"
require_relative "settings"

module Abaca
  class Control
    # What the watch answers by itself, from the page and the configuration.
    #
    # The figures of a cluster are all in the page. A single process has some that only its Ruby knows: it is asked for
    # all of them, and where it does not answer in time, those of the page are of now, and the others as they were when
    # it answered last.
    class Looks
      # Seconds for an answer, so that all is told within 150 ms.
      TIME = 0.12
      # Requests that are named of those with equal stacks.
      EXAMPLES = 3
      private_constant :TIME, :EXAMPLES

      # @param config [Config]
      # @param slots [Launcher::Cluster::Slots, Launcher::OnlySlot] the page
      # @param launcher [Questions]
      # @param crew [Crew]
      # @param changes [Hash{Symbol => Object}] settings that somebody has changed
      def initialize(config, slots, launcher, crew, changes)
        @config = config
        @slots = slots
        @launcher = launcher
        @crew = crew
        @changes = changes
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
      def config
        changed = @changes.transform_values { |value| { value:, from: "set" } }
        { config: Config::Report.new(@config).to_h.merge(changed) }
      end

      # @return [Hash{Symbol => Object}] the settings that can be changed, and their values
      def set = { set: Settings.names.to_h { |name| [name, @changes.fetch(name) { @config[name] }] } }

      # @param query [Hash{String => String}]
      # @return [Hash{Symbol => Object}] changes of settings
      # @raise [ConfigError]
      def read_changes(query) = Settings.read(query, @config)

      # @param changes [Hash{Symbol => Object}] that are in force from now on
      def note(changes) = @changes.update(changes)

      # @return [Hash{Symbol => Object}] what fibers wait for, and where: those with equal stacks are counted together
      def fibers
        answers = ask_crew("fibers")
        rows = answers.flat_map { |member, found| (found || []).map { |row| [member.slot, member.index, row] } }
        groups = rows.group_by { |_, _, row| row.values_at(:waits_for, :backtrace) }
        { workers: workers_of(answers), fibers: groups.values.map { |all| group(all) }.sort_by { |row| -row[:count] } }
      end

      # @return [Hash{Symbol => Object}] connection pools of the app
      def pools
        answers = ask_crew("pools")
        { workers: workers_of(answers),
          pools: answers.flat_map { |member, found| (found || []).map { |row| { worker: member.index, **row } } } }
      end

      private

      def ask_crew(word)
        @crew.ask(word, within: TIME).transform_values do |answer|
          JSON.parse(answer.body, symbolize_names: true) if answer&.status == 200
        end
      end

      # Who has not answered in time says so: its Ruby does not run.
      def workers_of(answers)
        answers.map { |member, found| { index: member.index, pid: member.pid, pending: found.nil? } }
      end

      def group(all)
        rows = all.map(&:last)
        { count: rows.size, workers: all.map { |_, index, _| index }.uniq.sort,
          oldest: rows.filter_map { |row| row[:age] }.max,
          ids: all.filter_map { |slot, _, row| row[:id] && "#{slot}.#{row[:id]}" }.first(EXAMPLES),
          requests: rows.filter_map { |row| row[:request] }.uniq.first(EXAMPLES),
          details: rows.filter_map { |row| row[:detail] }.uniq.first(EXAMPLES),
          **rows.first.slice(:waits_for, :frame, :backtrace) }
      end

      def clustered? = @config[:workers].positive?

      def ask
        answer = @launcher.ask("stats", within: TIME)
        @fresh = answer&.status == 200
        @known = JSON.parse(answer.body, symbolize_names: true) if @fresh
      end
    end
  end
end
