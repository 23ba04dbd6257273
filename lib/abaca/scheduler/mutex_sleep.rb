# frozen_string_literal: true

module Abaca
  class Scheduler
    # Locks a mutex again when its sleep was interrupted. Ruby before 3.4 (and the last releases of 3.3) forgets that
    # with a fiber scheduler: an exception that ends Mutex#sleep or ConditionVariable#wait, such as a request's
    # deadline, then became a ThreadError when the mutex was unlocked, and a Monitor was taken from the fiber that had
    # entered it meanwhile.
    module MutexSleep # :nodoc:
      def sleep(timeout = nil)
        held = owned?
        super
      ensure
        lock if held && !owned?
      end

      Mutex.prepend(self) if RUBY_VERSION < "3.4"
    end
    private_constant :MutexSleep
  end
end
