# frozen_string_literal: true

module Abaca
  # Finds the class that the setting `fiber_scheduler` stands for (docs/guest_mode.md).
  module SchedulerClass
    # What every Fiber::Scheduler must have.
    HOOKS = %i[block unblock kernel_sleep io_wait fiber].freeze
    NAME = /\A(::)?[A-Z]\w*(::[A-Z]\w*)*\z/
    private_constant :HOOKS, :NAME

    class << self
      # @param setting [Class, String] a scheduler class or its name, whose library is loaded if need be
      # @return [Class] one that can serve
      # @raise [ConfigError] when there is no such class, or it is no scheduler for this Ruby
      def of(setting)
        found = setting.is_a?(String) ? find(setting) : setting
        return found if found.is_a?(Class) && found <= Scheduler

        problem = problem_of(found)
        raise ConfigError, "fiber_scheduler: #{found.inspect} #{problem}" if problem

        found
      end

      private

      def find(name)
        unless Config::Values.ascii?(NAME, name)
          raise ConfigError, "fiber_scheduler: #{name.inspect} is no name of a class"
        end

        return constant(name) if constant(name)

        libraries(name).each do |library|
          found = load(name, library) && constant(name)
          return found if found
        end
        raise ConfigError, "fiber_scheduler: there is no #{name}; is its gem in the Gemfile?"
      end

      def constant(name)
        Object.const_get(name)
      rescue NameError
        nil
      end

      # Where gems define such a class: Async::Scheduler may be in async/scheduler, async_scheduler or async.
      def libraries(name)
        words = name.delete_prefix("::").split("::").map { |word| word.gsub(/(?<=[a-z0-9])(?=[A-Z])/, "_").downcase }
        [words.join("/"), words.join("_"), words.first].uniq
      end

      def load(name, library)
        require library
        true
      rescue LoadError => e
        return false if e.path == library

        raise ConfigError, "fiber_scheduler: #{name} cannot be loaded: #{e.message}"
      end

      def problem_of(found)
        return "is no class" unless found.is_a?(Class)

        missing = HOOKS.find { |hook| !found.method_defined?(hook) }
        return "is no Fiber::Scheduler: it has no #{missing}" if missing
        return "does not support Ruby #{RUBY_VERSION} here" if found.respond_to?(:supported?) && !found.supported?

        needed = found.instance_method(:initialize).parameters.find { |kind, _| %i[req keyreq].include?(kind) }
        "cannot be made without arguments: an older version, for another Ruby?" if needed
      end
    end
  end
end
