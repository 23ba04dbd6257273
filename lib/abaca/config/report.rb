# frozen_string_literal: true

module Abaca
  class Config
    # The effective configuration in words: a line for each setting, with its value and where that comes from. Secrets
    # are masked.
    class Report
      # Settings that only programs have.
      OBJECTS = %i[log errors].freeze
      SECRETS = %i[control_auth_token control_operate_token control_read_token
                   server_timing_secret].freeze
      # One may stand in a command.
      TOKEN = /(--control-token[ =])[^\s"]+/
      private_constant :OBJECTS, :SECRETS, :TOKEN

      # @param config [Config]
      def initialize(config)
        @config = config
      end

      # @return [Array<String>]
      def lines
        rows = (SETTINGS.keys - OBJECTS).map { |name| [name.to_s, value(name), @config.origin(name)] }
        name, value = [0, 1].map { |column| rows.map { |row| row[column].size }.select { |size| size <= 40 }.max }
        rows.map { |row| "#{row[0].ljust(name)}  #{row[1].ljust(value)}  #{row[2]}" }
      end

      # @return [Hash{Symbol => Hash}] the same by setting, as `value` and `from`
      def to_h
        (SETTINGS.keys - OBJECTS).to_h { |name| [name, { value: plain(name), from: @config.origin(name) }] }
      end

      private

      # As JSON has it, where it does.
      def plain(name)
        value = @config[name]
        case value
        when nil, true, false, Numeric then name == :default_host ? value(name) : value
        when String, Symbol then SECRETS.include?(name) ? value(name) : masked(value.to_s)
        else value(name)
        end
      end

      def value(name)
        return @config.binds.join(", ") if name == :binds
        return @config.default_host if name == :default_host

        value = @config[name]
        SECRETS.include?(name) && value ? "(secret)" : text(value)
      end

      def masked(text) = text.gsub(TOKEN, '\1***')

      def text(value)
        case value
        when nil, [] then "-"
        when Hook then "a block"
        when Proc then "a block at #{value.source_location.first(2).join(':')}"
        when TLS::Certificate then value.label
        when Array then value.map { |one| one.is_a?(Array) ? one.inspect : text(one) }.join(", ")
        when String, Symbol, Numeric, true, false, Hash, Module then masked(value.inspect)
        else "a #{value.class}"
        end
      end
    end
  end
end
