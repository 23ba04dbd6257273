# frozen_string_literal: true

module Abaca
  class Config
    # What is done about fibers that keep their loop (docs/stalls.md): checks the settings that say so. Times
    # are milliseconds, as none of them is worth a second.
    module Stalls
      DEFAULTS = {
        gvl_wait_target: 5, quantum: nil, spare_loops: 8, stall_after: 20, stall_report: 100
      }.freeze
      # More threads than these only take the interpreter from each other.
      MOST_LOOPS = 64
      # The longest time that one of them makes sense for, in milliseconds.
      LONGEST = 60_000
      # The shortest quantum that is noticed.
      SHORTEST_QUANTUM = 0.5

      class << self
        # @param values [Hash{Symbol => Object}] settings by name
        # @return [Hash{Symbol => Object}] those of DEFAULTS, checked
        # @raise [ConfigError]
        def check(values)
          times = %i[gvl_wait_target stall_after stall_report].to_h { |name| [name, time(name, values[name])] }
          { **times, quantum: quantum(values[:quantum]), spare_loops: loops(values[:spare_loops]) }
        end

        # What the engine is told for a configuration.
        #
        # @param config [Config]
        # @return [Hash{Symbol => Object}] times in seconds
        def engine_options(config)
          times = %i[gvl_wait_target stall_after stall_report].to_h { |name| [name, config[name] / 1000.0] }
          { **times, spare_loops: config[:spare_loops] }
        end

        private

        def time(name, value)
          number = Float(value, exception: false)
          return number if number&.finite? && number.between?(0, LONGEST)

          raise ConfigError, "#{name}: milliseconds are needed, 0 to #{LONGEST}, not #{value.inspect}"
        end

        def quantum(value)
          return nil if value.nil?

          number = Float(value, exception: false)
          return nil if number&.zero?
          return number if number&.finite? && number.between?(SHORTEST_QUANTUM, LONGEST)

          raise ConfigError, "quantum: milliseconds are needed, #{SHORTEST_QUANTUM} to #{LONGEST} or nil, " \
                             "not #{value.inspect}"
        end

        def loops(value)
          number = Config.whole(value || 0)
          return number if number&.between?(0, MOST_LOOPS)

          raise ConfigError, "spare_loops: a number of threads is needed, 0 to #{MOST_LOOPS}, not #{value.inspect}"
        end
      end
    end
  end
end
