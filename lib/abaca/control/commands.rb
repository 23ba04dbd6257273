# frozen_string_literal: true

require_relative "../log/text"
require_relative "answer"
require_relative "puma_stats"

module Abaca
  class Control
    # What a control server can be asked for: Puma's commands with Puma's answers, and looks of our own. What the
    # launcher cannot do is 404.
    class Commands
      # Commands that the launcher carries out; those that may be impossible return false then.
      ACTS = %w[stop halt restart phased-restart refork reload-worker-directory].freeze
      # Puma's others.
      OTHERS = { "gc" => :gc, "gc-stats" => :gc_stats, "stats" => :stats,
                 "thread-backtraces" => :thread_backtraces }.freeze
      # Ours, for which a token in the query is not enough.
      OURS = { "workers" => :workers, "dump" => :dump, "reload-certificates" => :reload_certificates }.freeze
      # Those that `data_only` leaves.
      DATA = %w[stats gc-stats workers].freeze
      OK = "{ \"status\": \"ok\" }"
      private_constant :ACTS, :OTHERS, :OURS, :DATA, :OK

      # @param launcher [Launcher]
      # @param log [Log] has a line for each act
      # @param data_only [Boolean] whether nothing can be done but read figures
      def initialize(launcher, log:, data_only: false)
        @launcher = launcher
        @log = log
        @data_only = data_only
      end

      # @param path [String] of a request: its last segment is the command
      # @return [String] the command
      def name(path) = path[%r{[^/]*\z}]

      # @param command [String]
      # @return [Boolean] whether Puma has it too, and its clients send the token in the query
      def pumas?(command) = !OURS.key?(command)

      # @param command [String]
      # @return [Answer]
      def answer(command)
        return Answer.text(404, "Command #{command.inspect} unavailable") if @data_only && !DATA.include?(command)
        return act(command) if ACTS.include?(command)

        method = OTHERS[command] || OURS[command]
        method ? send(method) : Answer.text(404, "Unsupported action")
      end

      private

      def act(command)
        method = command.tr("-", "_")
        return unavailable(method) unless @launcher.respond_to?(method)

        @log.info("* Control server: #{command}")
        @launcher.public_send(method) == false ? unavailable(method) : ok
      end

      def ok = Answer.new(200, "application/json", OK)

      def unavailable(method) = Answer.new(404, "application/json", "{ \"error\": \"#{method} not available\" }")

      def gc
        GC.start
        ok
      end

      def gc_stats = Answer.json(GC.stat)

      def stats = Answer.json(@launcher.stats)

      def workers = Answer.json(PumaStats.workers(@launcher.stats))

      # Of this process: the one, or the master.
      def thread_backtraces
        Answer.json(Thread.list.map do |thread|
          name = "Thread: TID-#{thread.object_id.to_s(36)} #{thread.name}".strip
          { name:, backtrace: (thread.backtrace || []).map { |frame| Log::Text.utf8(frame) } }
        end)
      end

      # Says what is wrong with them.
      def reload_certificates
        act("reload-certificates")
      rescue ConfigError => e
        Answer.text(422, e.message)
      end

      # A master has no requests, and its workers no control server.
      def dump
        server = @launcher.server
        return Answer.text(200, "#{Log::Text.utf8(server.dump)}\n") if server

        @launcher.dump.nil? ? unavailable("dump") : Answer.text(200, "each worker writes its dump into the log\n")
      end
    end
  end
end
