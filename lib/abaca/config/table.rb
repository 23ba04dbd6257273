# frozen_string_literal: true

require_relative "setting"

module Abaca
  class Config
    # What the table of settings is written with. Its methods add rows to a section.
    class Table
      # @yield with a table for `self`
      # @return [Hash{String => Array<Setting>}] the rows by the headlines of their sections
      def self.sections(&) = new.tap { |table| table.instance_eval(&) }.sections.freeze

      # @return [Hash{String => Array<Setting>}]
      attr_reader :sections

      def initialize
        @sections = {}
      end

      private

      # @yield adds the rows
      def section(headline)
        @rows = @sections[headline] = []
        yield
      end

      def setting(name, default, type, doc, **columns) = row(name:, default:, type:, doc:, **columns)

      def any(name, default, values, doc, **columns) = setting(name, default, Types::Any.new(values), doc, **columns)

      def checked(name, default, values, doc, check, **columns)
        setting(name, default, Types::Checked.new(values, check), doc, **columns)
      end

      def switch(name, default, doc, **columns) = setting(name, default, Types::Switch.new, doc, **columns)

      def limit(name, values: nil, **columns)
        default, _unit, doc = LIMITS.fetch(name)
        setting(name, default, Types::Limit.new(name, values), doc, **columns)
      end

      def hook(name, doc, keyed: false, of_workers: false, level: :process, **columns)
        setting(name, [].freeze, Types::Hooks.new(keyed:, of_workers:), doc, level:, **columns)
      end

      def worker_hook(name, doc, **columns) = hook(name, doc, of_workers: true, **columns)

      # A method of configuration files that sets nothing, or a setting with another name.
      def file_only(name, values, doc, shown: "–", **columns)
        row(file: [name], type: Types::Any.new(values), doc:, shown:, **columns)
      end

      def row(**columns) = @rows << Setting.new(**columns)
    end
  end
end
