# frozen_string_literal: true

module Abaca
  class Config
    class Plugins
      # What the settings work on that plugins add to Puma::DSL: objects of a class below it. Settings of the server
      # that they call are those of our DSL.
      module Settings
        class << self
          # @param dsl [DSL]
          # @param options [PumaOptions] takes what plugins keep
          # @return [Puma::DSL]
          def for(dsl, options) = (@class ||= make).new(dsl, options)

          private

          def make
            names = DSL.public_instance_methods - Object.public_instance_methods
            Class.new(::Puma::DSL) do
              define_method(:initialize) do |dsl, options|
                @abaca = dsl
                @options = options
              end
              names.each do |name|
                define_method(name) { |*given, **words, &block| @abaca.public_send(name, *given, **words, &block) }
              end
            end
          end
        end
      end
    end
  end
end
