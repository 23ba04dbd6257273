# frozen_string_literal: true

# Puma, as gems see it.
module Puma
  # There is no such plugin, or its file does not register it.
  class UnknownPlugin < RuntimeError; end

  # What plugins are made with: the block of .create is the body of a class, named after the file
  # `puma/plugin/NAME.rb` that it stands in. `config(dsl)` is called when the configuration file names the plugin,
  # `start(launcher)` when the server has booted.
  class Plugin
    FILE = %r{puma/plugin/([^/]+)\.rb\z}
    private_constant :FILE

    # @return [Class]
    # @raise [UnknownPlugin] outside such a file
    def self.create(&)
      path = caller_locations(1, 1).first.path
      name = path[FILE, 1] or raise UnknownPlugin, "#{path} is not named puma/plugin/NAME.rb"
      Class.new(self, &).tap { |plugin| Plugins.register(name, plugin) }
    end

    # Runs a block on a thread of its own, once the server has booted.
    def in_background(&) = Plugins.add_background(&)
  end

  # The plugins whose files are loaded.
  class PluginRegistry
    def initialize
      @classes = {}
      @background = []
    end

    # @param name [String]
    # @param plugin [Class]
    def register(name, plugin) = @classes[name] = plugin

    # @param name [String, Symbol]
    # @return [Class] that of `puma/plugin/NAME.rb`, which is looked for in $LOAD_PATH
    # @raise [UnknownPlugin]
    # @raise [LoadError] if the file requires what is not there
    def find(name)
      name = name.to_s
      @classes[name] || load(name)
    end

    # @yield on a thread, after #fire_background
    def add_background(&block) = @background << block

    # Starts these threads.
    def fire_background = @background.shift(@background.size).each { |block| Thread.new(&block) }

    private

    def load(name)
      feature = "puma/plugin/#{name}"
      begin
        require feature
      rescue LoadError => e
        raise unless e.path == feature

        raise UnknownPlugin, "there is no #{feature}.rb in the bundle"
      end
      @classes[name] or raise UnknownPlugin, "#{feature}.rb registers no plugin of that name"
    end
  end

  Plugins = PluginRegistry.new
end
