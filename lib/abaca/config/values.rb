# frozen_string_literal: true

module Abaca
  class Config
    # The limits of the native table: name => [default, unit, what happens beyond it].
    LIMITS = Engine::LIMITS.transform_keys(&:to_sym).freeze

    # What several types of settings have in common: limits, and numbers, words and paths as people write them.
    module Values
      module_function

      # @param name [Symbol] of a limit
      # @return [Integer] 0 where that is "no limit"
      def least_of_limit(name) = LIMITS.fetch(name).last.include?("0 is ") ? 0 : 1

      # @param name [Symbol] of a limit
      # @param value [Object] what was given for it
      # @return [Integer]
      # @raise [ConfigError] when the value does not fit the limit
      def check_limit(name, value)
        unit = LIMITS.fetch(name)[1]
        number = whole(value)
        raise ConfigError, "#{name}: a whole number of #{unit} is needed, not #{value.inspect}" unless number

        least = least_of_limit(name)
        return number if number.between?(least, (2**63) - 1)

        raise ConfigError, "#{name}: #{number} #{unit} is out of range, #{least} is the least"
      end

      # @param values [Hash{Symbol => Object}] limits by name
      # @return [Hash{Symbol => Integer}]
      # @raise [ConfigError] for an unknown name or a value that does not fit
      def check_limits(values)
        values.to_h do |name, value|
          raise ConfigError, "no limit is named `#{name}'#{suggestion(name, LIMITS.keys)}" unless LIMITS.key?(name)

          [name, check_limit(name, value)]
        end
      end

      # @param value [Object] what was given where a whole number is needed
      # @return [Integer, nil] nil for anything else; half a second is not none
      def whole(value)
        number = Integer(value, exception: false)
        number unless value.is_a?(Numeric) && number != value
      end

      # @param name [Symbol] of a setting that is a path, a command or a list, as the system and libraries take them
      # @param value [Object] what was given for it: a String, or what has a path
      # @param shown [Object] what messages have of it
      # @return [String, nil] nil: nothing was given
      # @raise [ConfigError]
      def text(name, value, shown: value.inspect)
        return if value.nil?

        value = value.to_path if value.respond_to?(:to_path)
        raise ConfigError, "#{name}: a String is needed, not #{shown}" unless value.is_a?(String)
        raise ConfigError, "#{name}: it has a null byte" if value.b.include?("\0")

        value
      end

      # @param names [Array<Symbol>] what a setting may be
      # @param value [Object] what was given for it: one of them, or its name as a String
      # @return [Symbol, nil] nil for anything else, bytes included of which no Symbol can be made
      def one_of(names, value) = names.find { |name| name.to_s == value.to_s }

      # @param pattern [Regexp] of ASCII
      # @param value [Object]
      # @return [Boolean] whether it is a String like that, and not one that no Regexp may be asked about
      def ascii?(pattern, value) = value.is_a?(String) && value.ascii_only? && pattern.match?(value)

      # @param value [Object]
      # @return [Boolean] whether it is a path, or begins as one
      def path?(value, *others)
        value.is_a?(String) && value.encoding.ascii_compatible? && value.start_with?("/", *others)
      end

      # @param value [Object]
      # @return [Boolean] whether it is a pattern of paths, "/reports/*" say; these are compared byte by byte
      def path_pattern?(value) = path?(value, "*")

      # @return [String] ` (did you mean ...?)` or nothing
      def suggestion(name, known)
        found = DidYouMean::SpellChecker.new(dictionary: known).correct(name).first
        found ? " (did you mean `#{found}'?)" : ""
      end
    end
  end
end
