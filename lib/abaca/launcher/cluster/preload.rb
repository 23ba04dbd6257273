# frozen_string_literal: true

module Abaca
  class Launcher
    class Cluster
      # Loads the app in the master, so that workers share it.
      module Preload
        # Threads that start anew in a worker by themselves: of the gem ffi, of Active Record, of Ruby's Timeout.
        RENEWED = ["FFI Callback Dispatcher", "AR Pool Reaper", "Timeout stdlib thread"].freeze
        private_constant :RENEWED

        # @param config [Config]
        # @param log [Log] hears of threads that the app starts meanwhile: they do not exist in workers
        # @return [#call] the app
        # @raise [ConfigError] if it does not load
        def self.load(config, log)
          log.info("* Preloading application")
          before = Thread.list
          app = App.load(config, log)
          started = (Thread.list - before).reject { |thread| renewed?(thread) }
          names = started.map { |thread| thread.name || thread.inspect }.join(", ")
          text = "detected #{started.size} thread(s) started in app boot, which workers will not have: #{names}"
          log.warn(text) if started.any?
          app
        end

        # An app marks threads of its own as under Puma.
        def self.renewed?(thread) = RENEWED.include?(thread.name) || thread.thread_variable_get(:fork_safe)
        private_class_method :renewed?
      end
    end
  end
end
