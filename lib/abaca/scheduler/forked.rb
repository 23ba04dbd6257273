# frozen_string_literal: true

module Abaca
  class Scheduler
    # What the hooks do in a forked child, where Ruby before 4.0 leaves the parent's scheduler in place: Ruby does it,
    # in a thread without a scheduler, and ours waits for that thread as for any other.
    module Forked # :nodoc:
      class << self
        # As Timeout without a scheduler: a thread raises in this one. message: nil: the usual one.
        def timeout_after(duration, exception, message)
          message ||= "execution expired" if exception.is_a?(Class)
          target = Thread.current
          timer = start do
            sleep duration
            target.raise(exception, *message)
          end
          yield duration
        ensure
          timer&.kill&.join
        end

        # Returns an Array of address Strings, or nil when the name is unknown.
        def address_resolve(hostname)
          require "socket"
          elsewhere { Addrinfo.getaddrinfo(hostname, nil, nil, :STREAM).map(&:ip_address).uniq }
        rescue SocketError
          nil
        end

        def io_select(*lists) = elsewhere { IO.select(*lists) }

        def process_wait(pid, flags) = elsewhere { Process::Status.wait(pid, flags) }

        private

        def start
          Thread.new do
            Thread.current.report_on_exception = false
            yield
          end
        end

        # The value of the block, which a thread calls. The thread ends if the wait is given up.
        def elsewhere(&block)
          thread = start(&block)
          thread.value
        ensure
          thread&.kill&.join
        end
      end
    end
    private_constant :Forked
  end
end
