# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # Loads the app in the master, so that workers share it.
      module Preload
        # @param config [Config]
        # @param log [Log] hears of threads that the app starts meanwhile: they do not exist in workers
        # @return [#call] the app
        # @raise [ConfigError] if it does not load
        def self.load(config, log)
          log.info("* Preloading application")
          before = Thread.list
          app = App.load(config, log)
          started = Thread.list - before
          names = started.map { |thread| thread.name || thread.inspect }.join(", ")
          text = "detected #{started.size} thread(s) started in app boot, which workers will not have: #{names}"
          log.warn(text) if started.any?
          app
        end
      end
    end
  end
end
