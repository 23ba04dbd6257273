# frozen_string_literal: true

module Abaca
  class Control
    # Everything that a control server can be asked for: who may, and how.
    module Catalogue
      # What a token allows: each level all of those before it, too.
      LEVELS = %i[read operate admin].freeze

      # A command. `puma`: Puma has it, with the token in the query. `act`: it changes something. `post`: only by that
      # method. `figures`: `data_only` leaves it. `open`: it needs no token.
      Entry = Struct.new(:name, :level, :puma, :act, :post, :figures, :open, keyword_init: true) do
        # @param level [Symbol]
        # @return [Boolean] whether that is enough
        def allowed?(level) = Catalogue.within?(self.level, level)
      end

      # @return [Hash{String => Entry}]
      ALL = {}.tap do |all|
        add = lambda do |level, *names, **how|
          names.each { |name| all[name] = Entry.new(name:, level:, **how).freeze }
        end
        add.call(:read, "stats", "gc-stats", puma: true, figures: true)
        add.call(:operate, "thread-backtraces", puma: true)
        add.call(:operate, "gc", puma: true, act: true)
        add.call(:admin, "stop", "halt", "restart", "phased-restart", "refork", "reload-worker-directory",
                 puma: true, act: true)
        add.call(:read, "workers", "metrics", figures: true)
        add.call(:read, "requests", "kept", "loops", "routes", "waits", "clients", "stalls", "events", "history")
        add.call(:read, "config", "dump", "fibers", "pools", "log-level", "set")
        add.call(:operate, "reload-certificates", act: true)
        add.call(:operate, "set-log-level", "set-setting", "cancel", "worker-gc", "worker-drain", "worker-recycle",
                 "profile", act: true, post: true)
        add.call(:operate, "chart")
        add.call(:read, "link", act: true, post: true)
        add.call(:read, "open", open: true)
        add.call(:read, "dashboard", "live", "request")
      end.freeze
      # What is not there is asked for with the token of anything of Puma's.
      NOTHING = Entry.new(level: :read, puma: true).freeze
      # Names that no path ends in: what they do needs more than that.
      OF_NO_PATH = %w[set-log-level set-setting worker-gc worker-drain worker-recycle].freeze
      private_constant :ALL, :NOTHING, :OF_NO_PATH

      # A change of what can be looked at has a name of its own.
      def self.name(request)
        act = request.path[%r{/workers/\d{1,4}/(gc|drain|recycle)\z}, 1] and return "worker-#{act}"

        name = request.path[%r{[^/]*\z}]
        return "set-log-level" if name == "log-level" && request.parameter("level")
        return "set-setting" if name == "set" && request.query.any?

        name unless OF_NO_PATH.include?(name)
      end
      private_class_method :name

      # @param level [Symbol]
      # @param other [Symbol]
      # @return [Boolean] whether the other one has all that the first one has; false if either is none
      def self.within?(level, other)
        return false unless [level, other].all? { |one| LEVELS.include?(one) }

        LEVELS.index(level) <= LEVELS.index(other)
      end

      # @param name [String] of a command
      # @param level [Symbol]
      # @return [Boolean] whether there is one, and that is enough for it
      def self.allowed?(name, level) = ALL.key?(name) && ALL[name].allowed?(level)

      # @return [Array<String>] of all commands
      def self.names = ALL.keys

      # @param request [Request] the last segment of its path is the command
      # @return [Entry] without a name if there is no such command
      def self.find(request)
        ALL.fetch(name(request), NOTHING)
      end
    end
  end
end
