# frozen_string_literal: true

module Abaca
  class Config
    # The methods that are served: checks the setting `supported_http_methods`.
    module HttpMethods
      # A token that the parser accepts as a method.
      NAME = /\A[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}\z/

      # @param value [Array<String>, Symbol, nil] names, or :any; nil: those that are registered
      # @return [Array<String>, Symbol, nil]
      # @raise [ConfigError]
      def self.check(value)
        return value if value.nil? || value == :any
        return value.map { |name| name.dup.freeze }.freeze if names?(value)

        raise ConfigError, "supported_http_methods: :any or an Array of different names is needed, not #{value.inspect}"
      end

      # @param value [Array<String>, Symbol, nil]
      # @return [Array<String>, Boolean, nil] the engine's option: true is any
      def self.engine_option(value) = value == :any || value

      def self.names?(value)
        value.is_a?(Array) && value.any? && value == value.uniq && value.all? { |name| Values.ascii?(NAME, name) }
      end
      private_class_method :names?
    end
  end
end
