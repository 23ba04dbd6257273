# frozen_string_literal: true

module Abaca
  class Config
    # What is done about fibers that keep their loop (docs/stalls.md). The settings are milliseconds, as none of them is
    # worth a second.
    module Stalls
      TIMES = %i[stall_after stall_report].freeze
      private_constant :TIMES

      # The engine's options for a configuration.
      #
      # @param config [Config]
      # @return [Hash{Symbol => Object}] times in seconds
      def self.engine_options(config)
        { **TIMES.to_h { |name| [name, config[name] / 1000.0] }, spare_loops: config[:spare_loops] }
      end
    end
  end
end
