# frozen_string_literal: true

module Abaca
  # Puma's gem, which may be in the bundle beside Abaca: plugins that are gems depend on it.
  module PumaGem
    class << self
      # @return [Boolean] whether it is in the bundle, or was activated
      def there? = !spec.nil?

      # @param name [String]
      # @return [String, nil] the path of a command of its; nil without the gem
      def command(name) = (spec || installed)&.bin_file(name)

      private

      def spec = defined?(Gem) ? Gem.loaded_specs["puma"] : nil

      # Outside a bundle, the names belong to Puma wherever it is installed.
      def installed
        Gem::Specification.find_by_name("puma").tap(&:activate) unless defined?(Bundler)
      rescue Gem::MissingSpecError
        nil
      end
    end
  end
end
