# frozen_string_literal: true

module Abaca
  class Config
    class Plugins
      # What the settings work on that plugins add to Puma::DSL: objects of a class below it. Settings of the server
      # that they call are those of our DSL.
      module Settings
        class << self
          # @param dsl [DSL]
          # @param kept [Hash{Symbol => Object}] takes what plugins keep
          # @return [Puma::DSL]
          def for(dsl, kept)
            options = PumaOptions.new(kept, set: dsl.method(:set)) { |name| dsl.get(name, DEFAULTS[name]) }
            (@class ||= make).new(dsl, options)
          end

          private

          def make
            names = DSL.public_instance_methods - Object.public_instance_methods
            Class.new(::Puma::DSL) do
              define_method(:initialize) do |dsl, options|
                @dsl = dsl
                @options = options
              end
              names.each do |name|
                define_method(name) { |*given, **words, &block| @dsl.public_send(name, *given, **words, &block) }
              end
            end
          end
        end
      end
    end
  end
end
