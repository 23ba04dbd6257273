# frozen_string_literal: true

module Abaca
  class Config
    # What a setting may be. A type checks a value and gives it its one form; `values` tells in words what it takes,
    # and `unit` what a number counts.
    module Types
      # Any object: whether it is of use shows where it is used.
      class Any
        # @return [String] for docs/configuration.md
        attr_reader :values
        # @return [String, nil]
        attr_reader :unit

        def initialize(values, unit: nil)
          @values = values
          @unit = unit
        end

        # @param _name [Symbol] of the setting
        # @param value [Object] what was given for it
        # @param _others [Hash{Symbol => Object}] the settings that are known so far
        # @return [Object] the value in its one form; one that has been checked already stays as it is
        # @raise [ConfigError]
        def check(_name, value, _others) = value

        # @param given [Object] what OptionParser found after a flag
        # @param _before [Object] what such a flag gave before
        # @return [Object] the setting's value
        def from_flag(given, _before) = given

        private

        def refuse(name, needed, value, bounds = nil)
          raise ConfigError, "#{name}: #{needed} needed#{bounds}, not #{value.inspect}"
        end

        def list(names) = [names[..-2].join(", "), names.last].reject(&:empty?).join(" or ")
      end

      # On or off; nil where the default is worked out.
      class Switch < Any
        def initialize = super("true, false")

        def check(_name, value, _others) = value && true
      end

      # Whether there is a rack.input without a body.
      class NullInput < Switch
        def check(name, value, _others)
          return super if value || newer_rack?

          raise ConfigError, "#{name}: Rack #{Rack.release} wants a rack.input in every request, 3.1 does not"
        end

        private

        def newer_rack?
          require "rack"
          (Rack.release.split(".").first(2).map { |part| Integer(part) } <=> [3, 1]) >= 0
        end
      end

      # A path, or another text.
      class Text < Any
        def check(name, value, _others) = Values.text(name, value) || refuse(name, "a String is", value)
      end

      # Where standard output and standard error go.
      class Redirect < Any
        STREAMS = { stdout: "standard output", stderr: "standard error" }.freeze
        private_constant :STREAMS

        def initialize = super("files for standard output and error, whether to append")

        # @return [Hash{Symbol => Object}] `stdout`, `stderr` and `append`
        def check(_name, value, _others)
          return if value.nil?

          files = STREAMS.to_h { |key, stream| [key, file(value[key], stream)] }
          { **files, append: value[:append] ? true : false }.freeze
        end

        private

        def file(path, stream)
          Values.text(:stdout_redirect, path)
        rescue ConfigError
          hint = "; whether to append is the third argument" if [true, false].include?(path)
          raise ConfigError, "stdout_redirect: a file for #{stream} is needed, not #{path.inspect}#{hint}", cause: nil
        end
      end

      # What a method checks.
      class Checked < Any
        # @param check [#call] takes the value
        def initialize(values, check)
          super(values)
          @check = check
        end

        def check(_name, value, _others) = @check.call(value)
      end

      # A limit of the native table.
      class Limit < Any
        def initialize(name, values = nil)
          _default, unit, = LIMITS.fetch(name)
          super(values || "#{'bytes a second, ' if unit == 'bytes/s'}from #{Values.least_of_limit(name)}", unit:)
        end

        def check(name, value, _others) = Values.check_limit(name, value)
      end

      # A whole number.
      class Count < Any
        # @param unit [String] what is counted
        # @param range [Range] an endless one has `most` as its silent end
        # @param most [Integer, nil]
        # @param none [Integer, nil] what nil stands for
        def initialize(unit, range, most: range.end, none: nil)
          within = "#{range.begin} to #{range.end}" if range.end
          super(within || "from #{range.begin}", unit:)
          @range = range.begin..most
          @none = none
          @bounds = ", #{within || '0 or more'}" if within || range.begin.zero?
        end

        def check(name, value, _others)
          number = Values.whole(value.nil? ? @none : value)
          return number if number && @range.cover?(number)

          refuse(name, "a number of #{unit} is", value, @bounds)
        end
      end

      # A time that is not worth a second.
      class Milliseconds < Any
        # @param off [Boolean] whether 0 and nil mean never
        def initialize(least, most, off: false)
          super("#{least} to #{most}#{'; nil or 0' if off}", unit: "milliseconds")
          @least = least
          @most = most
          @off = off
        end

        def check(name, value, _others)
          number = Float(value, exception: false)
          return nil if @off && (value.nil? || number&.zero?)
          return number if number&.finite? && number.between?(@least, @most)

          refuse(name, "milliseconds are", value, ", #{@least} to #{@most}#{' or nil' if @off}")
        end
      end

      # A time that may have a fraction.
      class Seconds < Any
        # @param words [Hash{Symbol, nil => Float, nil}] what may stand in place of a number, and what it means
        # @param zero [Boolean] whether 0 makes sense
        def initialize(words = {}, zero: true)
          @words = words
          @names = words.keys.compact
          @zero = zero
          super([zero ? "from 0" : "above 0", *@names.map { |name| "`#{name.inspect}`" }].join(", "), unit: "seconds")
        end

        def check(name, value, _others)
          word = value.nil? ? nil : Values.one_of(@names, value) || :number
          return @words[word] if @words.key?(word)

          seconds = Float(value, exception: false)
          return seconds if seconds&.finite? && (@zero ? !seconds.negative? : seconds.positive?)

          refuse(name, @names.empty? ? "seconds are" : "#{list(['seconds', *@names.map(&:inspect)])} is", value)
        end
      end

      # How long a worker may be silent: it reports once in each interval.
      class WorkerTimeout < Seconds
        def initialize = super(zero: false)

        def check(name, value, others)
          seconds = super
          interval = Float(others.fetch(:worker_check_interval, 0))
          return seconds if seconds > interval

          raise ConfigError, "#{name}: #{value} seconds are not more than worker_check_interval, #{interval}"
        end
      end

      # A number of processes.
      class Workers < Any
        # More than that is a mistake on any machine.
        MOST = 1000

        def initialize = super("from 0, `:auto`")

        def check(name, value, _others)
          return Processors.new.workers if Values.one_of([:auto], value)

          number = Values.whole(value.nil? ? 0 : value)
          return number if number&.between?(0, MOST)

          refuse(name, "a number of processes or :auto is", value, ", 0 to #{MOST}")
        end
      end

      # After how many requests of worker 0 the others are forked from it anew.
      class Reforks < Count
        # What `fork_worker` and its flag mean without a number.
        USUAL = 1000

        def initialize = super("requests", 0..)

        def check(name, value, others) = value.nil? ? nil : super

        def from_flag(given, _before) = given || USUAL
      end

      # What is called at one point in the server's life.
      class Hooks < Any
        # @param keyed [Boolean] whether a key may come before the block
        # @param of_workers [Boolean] whether it is never called without workers
        def initialize(keyed: false, of_workers: false)
          super(keyed ? "a block, perhaps a key before it" : "a block")
          @keyed = keyed
          @of_workers = of_workers
        end

        # @return [Boolean]
        def keyed? = @keyed

        # @return [Boolean]
        def of_workers? = @of_workers

        def check(name, value, _others)
          Array(value).map { |one| one.is_a?(Hook) ? one : Hook.new(one, name:) }.freeze
        end
      end

      # Names that add up.
      class Names < Any
        # Plugins that are a part of the server.
        BUILT_IN = %w[tmp_restart systemd].freeze

        def check(_name, value, _others) = Array(value).map(&:to_s).uniq.freeze

        def from_flag(given, before) = [*before, *given.split(",")]
      end

      # The bits of a file's mode.
      class FileMode < Any
        def initialize = super("such as `0o640`")

        def check(name, value, _others)
          return value if value.nil? || (value.is_a?(Integer) && value.between?(0, 0o777))

          refuse(name, "a mode such as 0o640 is", value)
        end
      end

      # Where the control server listens.
      class ControlUrl < Any
        def initialize = super("a URL, `\"auto\"`")

        def check(_name, value, _others)
          return if value.nil?

          require_relative "../control/address" # few have one
          Abaca::Control::Address.parse(value.to_s)
          value.to_s
        end
      end

      # Where metrics are: a port, of this machine alone, or a host and a port.
      class MetricsPort < Any
        PLACE = %r{\A(?:(?<host>\[[\h:.]+\]|[^\[\]:/?#\s]+):)?(?<port>\d{1,5})\z}
        private_constant :PLACE

        def initialize = super("a port, perhaps with a host before it: `9394`, `\"0.0.0.0:9394\"`")

        # @return [String, nil] host and port
        def check(name, value, _others)
          return if value.nil?

          match = PLACE.match(value.to_s)
          refuse(name, "a port, or host:port, is", value) unless match && match[:port].to_i <= 65_535
          "#{match[:host] || '127.0.0.1'}:#{match[:port]}"
        end
      end

      # Whether sockets of systemd are listened at, and nothing else.
      class Activation < Any
        def initialize = super("true, false, `:only`")

        def check(name, value, _others)
          return value if [true, false].include?(value)

          Values.one_of([:only], value) || refuse(name, "true, false or :only is", value)
        end

        def from_flag(given, _before) = given || true
      end

      # One of several words, as a Symbol or as text.
      class Choice < Any
        # @return [Array<Symbol>]
        attr_reader :names

        def initialize(*names)
          super(names.map { |name| "`#{name.inspect}`" }.join(", "))
          @names = names
        end

        def check(name, value, _others)
          Values.one_of(@names, value) || refuse(name, "#{list(@names.map(&:inspect))} is", value)
        end
      end

      # What stands before the path of every request, in SCRIPT_NAME: the Rack specification says of what form.
      class Prefix < Any
        def initialize = super("`\"\"`, or a path such as `\"/shop\"`")

        def check(name, value, _others)
          value = "" if value.nil?
          return value if value == "" || (Values.path?(value) && !value.end_with?("/"))

          refuse(name, "\"\" or a path such as \"/shop\" is", value)
        end
      end

      # A path that the engine answers itself; it is compared byte by byte with that of a request.
      class HealthPath < Any
        PATH = %r{\A/[!$-;=@-\[\]-~]{0,254}\z}
        private_constant :PATH

        # @param other [Symbol] the setting that must have another path
        def initialize(other)
          super("a path")
          @other = other
        end

        def check(name, value, others)
          return if value.nil?

          refuse(name, "a path such as \"/#{name}\" is", value) unless Values.ascii?(PATH, value)
          raise ConfigError, "readiness and liveness have the same path" if others[@other] == value

          value
        end
      end
    end
  end
end
