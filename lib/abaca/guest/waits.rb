# frozen_string_literal: true

module Abaca
  class Guest
    # What a foreign scheduler's hooks say of the request that calls them: what it waits for (docs/sight.md). A module
    # for each hook stands before the scheduler's own method; hooks that it lacks stay away, since Ruby looks which of
    # them there are.
    module Waits
      # The hooks by what they wait for. Those whose first argument is an IO ask what is at its other end.
      KINDS = { block: :lock, kernel_sleep: :sleep, io_wait: :io, io_read: :io, io_write: :io, io_select: :io,
                process_wait: :process, address_resolve: :dns, blocking_operation_wait: :offload }.freeze
      private_constant :KINDS

      class << self
        # Once for a scheduler.
        #
        # @param scheduler [Object]
        # @return [Object] the same
        def watch(scheduler)
          names = KINDS.keys.select { |name| scheduler.respond_to?(name) }
          scheduler.singleton_class.prepend(hooks(names)) unless scheduler.frozen?
          scheduler
        end

        private

        def hooks(names)
          Module.new do
            names.each do |name|
              kind = KINDS.fetch(name)
              define_method(name) do |*args, **options, &block|
                Engine.waiting_for(kind, args.first) { super(*args, **options, &block) }
              end
            end
          end
        end
      end
    end
    private_constant :Waits
  end
end
