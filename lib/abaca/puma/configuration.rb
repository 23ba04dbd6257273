# frozen_string_literal: true

module Abaca
  # A configuration as Puma's plugins and configuration files see it: `launcher.config`, and `Puma.cli_config`.
  class PumaConfiguration
    class << self
      # @param configuration [PumaConfiguration]
      attr_writer :current

      # @return [PumaConfiguration] of the file that is being read, or of the server of this process. If the app asks
      #   before the file is read, as under `rails server`, it is read now
      # @raise [ConfigError] if there is a mistake in it
      def current
        return @current if @current

        Config::Loader.new.load
        @current
      rescue ConfigError
        @current = nil # what was read before the mistake
        raise
      end
    end

    # @return [PumaOptions] while files are read: what one sets here overrides the files, as flags do. Afterwards: all
    #   settings, which cannot be changed
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
