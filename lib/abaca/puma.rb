# frozen_string_literal: true

require_relative "../abaca"

module Abaca # rubocop:disable Style/Documentation -- in lib/abaca.rb
  # The names of Puma that its plugins, its configuration files and exporters of figures use (docs/plugins.md). They do
  # not exist until they are asked for, by `plugin`, by a configuration file that names `Puma`, or by `require
  # "puma/plugin"`: other gems take the constant for a sign of Puma itself. If Puma's gem is in the bundle, the names
  # are Puma's own, and only the objects behind them are Abaca's.
  module PumaNames
    # The files of Puma's gem that define what plugins use.
    FILES = %w[puma puma/const puma/events puma/log_writer puma/plugin puma/dsl].freeze
    # What `require` finds once the names are there: "puma" itself, for instance.
    REQUIRED = File.expand_path("puma/required", __dir__)
    private_constant :FILES, :REQUIRED

    class << self
      # Defines them.
      def define
        PumaGem.there? ? FILES.each { |file| PumaGem.require(file) } : define_ours
        ::Puma.stats_object = self
        ::Puma.define_singleton_method(:cli_config) { PumaConfiguration.current }
      end

      # @return [Hash{Symbol => Object}] what `Puma.stats_hash` returns
      def stats = Abaca.stats_hash

      private

      def define_ours
        %w[const dsl events log_writer module plugin].each { |name| require_relative "puma/#{name}" }
        $LOAD_PATH.push(REQUIRED)
      end
    end
  end

  PumaNames.define
end
