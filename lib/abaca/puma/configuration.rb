# frozen_string_literal: true

module Abaca
  # A configuration as Puma's plugins and configuration files see it: `launcher.config`, and `Puma.cli_config`.
  class PumaConfiguration
    class << self
      # @return [PumaConfiguration, nil] of the file that is being read, or of the server of this process
      def current
        options = Config::DSL.command_line&.call || Launcher.current&.plugins&.options
        new(options) if options
      end
    end

    # @return [PumaOptions] a setting that a configuration file changes here counts as one of the command line
    attr_reader :options
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
