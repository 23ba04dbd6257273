# frozen_string_literal: true

module Abaca
  # A configuration as Puma's plugins and configuration files see it: `launcher.config`, and `Puma.cli_config`.
  class PumaConfiguration
    class << self
      # @param configuration [PumaConfiguration]
      attr_writer :current

      # @return [PumaConfiguration] of the file that is being read, or of the server of this process. The app of `rails
      #   server` may ask before that reads the file
      # @raise [ConfigError] if there is a mistake in the file then
      def current
        Config::Loader.new.load unless @current
        @current
      end
    end

    # @return [PumaOptions] a setting that a configuration file changes here counts as one of the command line. Once the
    #   files are read, they are others, which nothing changes
    attr_accessor :options
    alias _options options
    alias final_options options

    # @param options [PumaOptions]
    def initialize(options)
      @options = options
    end

    # @return [String] the name of the environment
    def environment = @options[:environment]

    # @return [String] the rackup file
    def rackup = @options[:rackup]

    # Puma's, which make the options ready to be read: they are.
    def load = self
    def clamp = self
  end
end
