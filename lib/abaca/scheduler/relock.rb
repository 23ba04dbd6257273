# frozen_string_literal: true

module Abaca
  class Scheduler
    # Locks a mutex again when its sleep was broken off. Ruby before 3.4 (and the last releases of 3.3) forgets that
    # where a fiber scheduler sleeps: an exception that ends Mutex#sleep or ConditionVariable#wait, a request's
    # deadline say, then turned into a ThreadError of the unlocking, and a Monitor was taken away from the fiber
    # that had entered it meanwhile.
    module Relock # :nodoc:
      def sleep(timeout = nil)
        held = owned?
        super
      ensure
        lock if held && !owned?
      end

      Mutex.prepend(self) if RUBY_VERSION < "3.4"
    end
    private_constant :Relock
  end
end
