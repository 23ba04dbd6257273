# frozen_string_literal: true

module Abaca
  # What `rails server` starts by default: it asks Rack's registry, which knows Puma, Falcon and WEBrick. If the
  # bundle has Abaca, and neither of the first two, it is Abaca.
  module DefaultHandler
    OTHERS = %w[puma falcon].freeze
    VARIABLES = %w[RACKUP_HANDLER RACK_HANDLER].freeze
    private_constant :OTHERS, :VARIABLES

    # Makes the loaded registries ask here first.
    #
    # @return [nil]
    def self.offer
      registry = if defined?(::Rackup::Handler) then ::Rackup::Handler
                 elsif defined?(::Rack::Handler) then ::Rack::Handler
                 end
      registry&.singleton_class&.prepend(self)
      nil
    end

    # @return [Module] a handler
    # @raise [LoadError] when there is none
    def default
      named = VARIABLES.any? { |name| ENV.key?(name) } || OTHERS.any? { |name| Gem.loaded_specs.key?(name) }
      named ? super : get("abaca")
    end
  end
end
