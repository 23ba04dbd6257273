# frozen_string_literal: true

require_relative "answer"
require_relative "puma_stats"

module Abaca
  class Control
    # What the watch has done by the launcher, in the launcher's process: acts, and looks that need its Ruby. What the
    # launcher cannot do is 404.
    class Acts
      # Those that the launcher's methods carry out; those that may be impossible return false then.
      ACTS = %w[stop halt restart phased-restart refork reload-worker-directory].freeze
      # The others.
      OTHERS = { "gc" => :gc, "gc-stats" => :gc_stats, "stats" => :stats, "thread-backtraces" => :thread_backtraces,
                 "dump" => :dump, "reload-certificates" => :reload_certificates, "log-level" => :log_level,
                 "set-log-level" => :set_log_level, "set" => :set, "worker-drain" => :drain_worker,
                 "worker-recycle" => :recycle_worker }.freeze
      OK = "{ \"status\": \"ok\" }"
      RESTARTING = "{ \"status\": \"restarting\" }"
      private_constant :ACTS, :OTHERS, :OK, :RESTARTING

      # @param launcher [Launcher]
      # @param log [Log] has a line for each act
      # @param changes [Hash{Symbol => Object}] of settings, which the next process of the watch shall know
      def initialize(launcher, log:, changes: {})
        @launcher = launcher
        @log = log
        @changes = changes
      end

      # @param word [String]
      # @return [Answer]
      def ask(word, within: nil, **with) # rubocop:disable Lint/UnusedMethodArgument -- as Questions#ask, here nobody waits
        return act(word) if ACTS.include?(word)

        method = OTHERS[word]
        method ? send(method, **with) : Answer.text(404, "Unsupported action")
      end

      private

      def act(command)
        method = command.tr("-", "_")
        return unavailable(method) unless @launcher.respond_to?(method)

        @log.info("* Control server: #{command}")
        case @launcher.public_send(method)
        when false then unavailable(method)
        when :restarting then Answer.new(200, "application/json", RESTARTING)
        else ok
        end
      end

      def ok = Answer.new(200, "application/json", OK)

      def unavailable(method) = Answer.new(404, "application/json", "{ \"error\": \"#{method} not available\" }")

      def gc
        GC.start
        ok
      end

      def gc_stats = Answer.json(GC.stat)

      def stats = Answer.json(@launcher.stats)

      # Of this process: the one, or the master.
      def thread_backtraces
        Answer.json(Thread.list.map do |thread|
          { name: "Thread: TID-#{thread.object_id.to_s(36)} #{thread.name}".rstrip, backtrace: thread.backtrace || [] }
        end)
      end

      # Says what is wrong with them.
      def reload_certificates
        act("reload-certificates")
      rescue ConfigError => e
        Answer.text(422, e.message)
      end

      def log_level = Answer.json({ v: 1, level: @log.level })

      def set_log_level(level:)
        before = @log.level
        @log.level = level.to_sym
        @log.dump("* Control server: log level #{level}, which was #{before}")
        log_level
      rescue ConfigError => e
        Answer.text(422, e.message)
      end

      def set(**changes)
        @log.info("* Control server: #{changes.map { |name, value| "#{name} #{value}" }.join(', ')}")
        @changes.update(changes)
        ok
      end

      def drain_worker(index:) = @launcher.drain_worker(index) ? ok : no_worker(index)

      def recycle_worker(index:) = @launcher.recycle_worker(index) ? ok : no_worker(index)

      def no_worker(index) = Answer.json({ v: 1, error: "no worker #{index}" }, status: 404)

      # A master has no requests.
      def dump
        server = @launcher.server
        return Answer.text(200, "#{server.dump}\n") if server

        @launcher.dump.nil? ? unavailable("dump") : Answer.text(200, "each worker writes its dump into the log\n")
      end
    end
  end
end
