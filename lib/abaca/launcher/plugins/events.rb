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
            streams = [$stdout, $stderr].first(::Puma::Events.instance_method(:initialize).arity.abs) # of Puma 5
            ::Puma::Events.new(*streams).extend(self).tap { |events| events.instance_variable_set(:@log, log) }
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

        # Under their old names they are the same events, which those of Puma before 7 are not.
        { after_booted: :on_booted, before_restart: :on_restart, after_stopped: :on_stopped }.each do |event, old|
          define_method(event) { |&block| register(event, &block) }
          alias_method old, event
        end

        # As Puma::Events#register.
        def register(event, object = nil, &block)
          called = object || block
          super(event, guarded(event, called, Events.plugin), &nil)
          called
        end

        private

        def guarded(event, called, plugin)
          return called unless called

          who = plugin ? "plugin #{plugin}" : "a gem"
          lambda do |*arguments|
            called.call(*arguments)
          rescue StandardError, ScriptError => e
            @log.error("#{who}: #{event} failed: #{e.message} (#{e.class}) at #{e.backtrace&.first}; " \
                       "#{Config::Plugins.lost(plugin)}")
          end
        end
      end
    end
  end
end
