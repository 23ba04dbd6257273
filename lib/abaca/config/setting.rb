# frozen_string_literal: true

module Abaca
  class Config
    # One setting: a row of the table in settings.rb. A row without a name is a method of configuration files that sets
    # nothing, or something of another name.
    #
    # name:: by which Server.new and Config know it
    # aliases:: other names of the same
    # type:: one of Types
    # default:: its value when it is not set; nil also for one that is worked out
    # shown:: the default in words, for one that is worked out
    # file:: the methods of configuration files, without the aliases; nil: one of its name
    # level:: :server; :process for what only the command makes use of; :object for what files do not have
    # flag:: true for a flag of its own name, or what OptionParser is told
    # flags:: the flags that cli.rb has for it
    # since:: the version that has it first
    # doc:: what it is for: in docs/configuration.md and in `abaca --help`
    # page:: the page of docs/ with the details
    # object:: the form that Server.new takes it in, where files have another one
    Setting = Struct.new(:name, :aliases, :type, :default, :shown, :file, :level, :flag, :flags, :since, :doc, :page,
                         :object, keyword_init: true)

    # A row of the table of settings.
    class Setting
      # What a flag's value is called.
      WORDS = { "seconds" => "SECONDS", "milliseconds" => "MS", "bytes" => "BYTES" }.freeze
      NONE = [].freeze
      private_constant :WORDS, :NONE

      def initialize(**columns)
        super({ aliases: NONE, level: :server, flags: NONE, since: "0.1.0" }.merge(columns))
        freeze
      end

      # @param value [Object] what was given for it; nil also for a default that is worked out
      # @param others [Hash{Symbol => Object}] the settings that are known so far
      # @return [Object] the value in its one form
      # @raise [ConfigError]
      def check(value, others)
        type.check(name, value, others) unless value.nil? && default.nil?
      end

      # @return [Boolean] whether it may be called without an argument in a file
      def switch? = type.is_a?(Types::Switch)

      # @return [Boolean] whether files give it a block
      def hook? = type.is_a?(Types::Hooks)

      # @return [Boolean] whether it is a hook that is never called without workers
      def hook_of_workers? = hook? && type.of_workers?

      # @return [String, nil] for "unit" of a number
      def unit = type&.unit

      # @return [Array<Symbol>] every method of configuration files that belongs to it
      def methods_of_file = [*(file || name), *aliases]

      # @return [Array<String>] for OptionParser; empty without a flag that is made from this row
      def option
        return [] unless flag
        return flag unless flag == true

        long = name.to_s.tr("_", "-")
        [if switch?
           "--[no-]#{long}"
         else
           "--#{long} #{WORDS.fetch(unit, unit ? 'N' : 'PATH')}"
         end]
      end

      # @return [Array<String>] the names of its flags
      def flag_names
        option.flat_map do |words|
          name = words[/[^\s=]+/]
          name.include?("[no-]") ? [name.sub("[no-]", ""), name.sub("[no-]", "no-")] : [name]
        end + flags
      end

      # @return [String, nil] the default as one writes it; nil for none
      def default_text
        return if default.nil? || default == []

        default.inspect.delete_suffix(".0").delete_prefix("[").delete_suffix("]")
      end
    end
  end
end
