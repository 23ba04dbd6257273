# frozen_string_literal: true

require_relative "../errors"

module Abaca
  class Control
    # The settings that can be changed while the server runs, until the next start.
    module Settings
      ALL = %i[max_queue].freeze
      private_constant :ALL

      class << self
        # @return [Array<Symbol>]
        def names = ALL

        # @param query [Hash{String => String}] as somebody has sent it
        # @param config [Config] in force
        # @return [Hash{Symbol => Object}] the values
        # @raise [ConfigError] for others, and for values that are none
        def read(query, config)
          changes = query.to_h { |name, value| [check_name(name), Integer(value, 10, exception: false) || value] }
          changes.each_key.with_object(config.with(changes)).to_h { |name, checked| [name, checked[name]] }
        end

        private

        def check_name(name)
          ALL.find { |one| one.name == name } or
            raise ConfigError, "#{name.inspect} cannot be changed: only #{ALL.join(', ')} can"
        end
      end
    end
  end
end
