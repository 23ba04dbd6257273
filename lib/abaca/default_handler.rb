# frozen_string_literal: true

module Abaca
  # What `rails server` starts when nobody names a server: it asks Rack's registry for the default one, which knows
  # Puma, Falcon and WEBrick. Where the bundle has Abaca, and neither of the first two, it is Abaca.
  module DefaultHandler
    OTHERS = %w[puma falcon].freeze
    VARIABLES = %w[RACKUP_HANDLER RACK_HANDLER].freeze
    private_constant :OTHERS, :VARIABLES

    # Has the registries that are loaded ask here first.
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
