# frozen_string_literal: true

module Abaca
  # The constant Puma: gems look for it to find their server, and that is Abaca. It is defined in a process that serves,
  # from the first line of the configuration file on, and in no other (docs/plugins.md). If Puma's gem is in the bundle,
  # the names are Puma's own, and only the objects behind them are Abaca's.
  module PumaNames
    # What `require "puma"` finds without the gem.
    OURS = File.expand_path("puma/names", __dir__)
    private_constant :OURS

    # What the module answers, whoever has defined it.
    module Served
      # @return [String] the figures of #stats_hash as JSON. Puma's own JSON has no Symbols
      def stats
        require "json" # whoever asks needs it, the server does not
        JSON.generate(stats_hash)
      end

      # @return [PumaConfiguration]
      def cli_config = PumaConfiguration.current
    end

    # What `Puma.stats_object=` gets: it looks like Puma's object that serves, Single or Cluster, by which gems know
    # where they are.
    module Runner
      # @param launcher [Launcher::Plugins::ForPlugins]
      # @param clustered [Boolean]
      # @return [Puma::Single, Puma::Cluster]
      def self.of(launcher, clustered:)
        runner = (clustered ? ::Puma::Cluster : ::Puma::Single).allocate
        runner.instance_variable_set(:@launcher, launcher)
        runner.instance_variable_set(:@options, launcher.options)
        runner.extend(self)
      end

      # @return [Hash{Symbol => Object}]
      def stats = Abaca.stats_hash

      # @return [PumaOptions]
      def options = @options

      # @return [Boolean] whether the master has loaded the app
      def preload? = @options[:preload_app]
    end

    # Defines the names, once. A gem that comes into the bundle later, with the app, does not replace them.
    #
    # @return [nil]
    # @raise [ConfigError] if the gem is there and does not load
    def self.define
      return if @defined

      if PumaGem.there?
        require "puma/cli" # it loads all the rest
      else
        $LOAD_PATH.unshift(OURS)
        require "puma"
      end
      ::Puma.singleton_class.prepend(Served)
      @defined = true
      nil
    rescue LoadError, StandardError => e
      raise ConfigError, "the gem puma is in the bundle and does not load: #{e.message}"
    end
  end
end
