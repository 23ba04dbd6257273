# frozen_string_literal: true

require_relative "../log/text"

module Abaca
  class FiberPool
    # Something that a job left on its fiber.
    #
    # kind:: :local (Thread#[]=), :storage (Fiber[]=) or :variable (an instance variable of the Fiber)
    # key:: its name
    # backtrace:: where it was set, the innermost frame first; empty when that is not known: it was set
    #             by C code, or by a method of the fiber's own as <tt>@key = value</tt>
    # job:: [file, line] of the job's block; nil for a request
    Leak = Struct.new(:kind, :key, :backtrace, :job, keyword_init: true)

    # Records what jobs leave behind. While it watches, the methods that set something on a fiber note the backtrace
    # in an instance variable of the fiber, which scrubbing removes with the rest.
    module LeakReport
      SITES = :@__abaca_leak_sites

      # Kernel's method, which is not watched.
      SET_VARIABLE = Kernel.instance_method(:instance_variable_set)

      # Frames of a backtrace that are kept.
      FRAMES = 30

      @found = {}
      @watchers = {}

      class << self
        # @return [Array<Leak>]
        def found = @found.values

        # Forgets what was found, so that it is reported again.
        def clear = @found.clear

        # Notes that `key` was set on the current fiber. Called by the watching methods.
        def note(kind, key)
          fiber = Fiber.current
          sites = fiber.instance_variable_get(SITES) || SET_VARIABLE.bind_call(fiber, SITES, {})
          sites[[kind, key]] = caller_locations(2, FRAMES)
        rescue FrozenError
          nil # then whatever is set fails as well
        end

        # Called by the native part, on the fiber, before it removes the keys.
        def left(kind, keys, job)
          sites = Fiber.current.instance_variable_get(SITES) || {}
          keys.each do |key|
            next if key == SITES || @found.key?([kind, key])

            backtrace = (sites[[kind, key]] || []).map(&:to_s)
            leak = Leak.new(kind:, key:, backtrace:, job: place_of(job))
            @found[[kind, key]] = leak
            $stderr.write(Log::Text.visible(text(leak)))
          end
        rescue StandardError
          nil # a report that cannot be written is no reason to give up the fiber
        end

        def watch
          @watchers[Thread] ||= prepend_to(Thread)
          @watchers[Fiber] ||= prepend_to(Fiber)
          @watchers[:storage] ||= prepend_to(Fiber.singleton_class) if Fiber.respond_to?(:[]=)
          watch_locals
          watch_storage if @watchers[:storage]
          watch_variables
          watch_writers
        end

        # A module cannot be removed again; without methods it costs nothing.
        def unwatch
          @watchers.each_value do |watcher|
            watcher.instance_methods(false).each { |name| watcher.remove_method(name) }
          end
        end

        private

        NAMES = { local: "the fiber-local", storage: "the storage key",
                  variable: "the instance variable" }.freeze
        private_constant :NAMES

        def text(leak)
          place = leak.backtrace.empty? ? " at an unknown place" : ":\n    #{leak.backtrace.join("\n    ")}"
          job = leak.job ? " by the job of #{leak.job.join(':')}" : ""
          "abaca: #{NAMES.fetch(leak.kind)} #{leak.key} was left behind#{job}, set#{place}\n"
        end

        # What was posted need not be a block.
        def place_of(job) = (job.source_location if job.respond_to?(:source_location))

        def prepend_to(target)
          Module.new.tap { |watcher| target.prepend(watcher) }
        end

        def watch_locals
          @watchers[Thread].define_method(:[]=) do |key, value|
            super(key, value)
            LeakReport.note(:local, key.to_sym) if equal?(Thread.current)
            value
          end
        end

        def watch_storage
          @watchers[:storage].define_method(:[]=) do |key, value|
            super(key, value)
            LeakReport.note(:storage, key)
            value
          end
        end

        def watch_variables
          @watchers[Fiber].define_method(:instance_variable_set) do |name, value|
            super(name, value)
            LeakReport.note(:variable, name.to_sym) if equal?(Fiber.current)
            value
          end
        end

        # Accessors that other libraries have added to Fiber, for instance ActiveSupport's.
        def watch_writers
          names = Fiber.public_instance_methods(false) - @watchers[Fiber].instance_methods(false)
          names.grep(/\A[a-z_]\w*=\z/i).each do |name|
            next if name == :storage=

            variable = :"@#{name.to_s.delete_suffix('=')}"
            @watchers[Fiber].define_method(name) do |value|
              super(value)
              LeakReport.note(:variable, variable) if equal?(Fiber.current)
              value
            end
          end
        end
      end
    end
    private_constant :LeakReport
  end
end
