# frozen_string_literal: true

module Abaca
  class Launcher
    class Plugins
      # The events that plugins hear of: Puma::Events, in which a plugin that fails does not keep the others from being
      # called.
      module Events
        class << self
          # @param log [Log]
          # @return [Puma::Events]
          def make(log)
            ::Puma::Events.new.extend(self).tap { |events| events.instance_variable_set(:@log, log) }
          end

          # @param name [String] the plugin that registers blocks meanwhile
          def of(name)
            @plugin = name
            yield
          ensure
            @plugin = nil
          end

          # @return [String, nil]
          attr_reader :plugin
        end

        # As Puma::Events#register.
        def register(event, object = nil, &block)
          called = object || block
          super(event, guarded(event, called, Events.plugin), &nil)
          called
        end

        private

        def guarded(event, called, plugin)
          return called unless called && plugin

          lambda do |*arguments|
            called.call(*arguments)
          rescue StandardError, ScriptError => e
            @log.error("plugin #{plugin}: #{event} failed: #{e.message} (#{e.class}) at #{e.backtrace&.first}; " \
                       "#{Config::Plugins.lost(plugin)}")
          end
        end
      end
    end
  end
end
