# frozen_string_literal: true

module Abaca
  class Config
    class DSL
      # Puma's settings that have no meaning here, or another one. They are accepted, so that a Puma file works
      # unchanged, and give a line of warning where something will not happen.
      module PumaSettings
        # name => why it has no effect
        WITHOUT_EFFECT = {
          max_io_threads: "a thread that waits for its client is not counted anyway",
          shutdown_debug: "a PWR logs what each request waits for",
          wait_for_less_busy_worker: "a worker without room accepts nothing",
          io_selector_backend: "the loop is native",
          mutate_stdout_and_stderr_to_sync_on_write: "log lines have a writer of their own"
        }.freeze

        WITHOUT_EFFECT.each do |name, why|
          define_method(name) { |*, **, &_block| @abaca.note("`#{name}' has no effect: #{why}") }
        end

        # A request is always read before a thread or a fiber gets it.
        def queue_requests(enabled = true) # rubocop:disable Style/OptionalBooleanParameter -- Puma's signature
          @abaca.note("`queue_requests false' has no effect: a request is read before a thread gets it") unless enabled
        end

        # Connections that wait when the server stops are always served.
        def drain_on_shutdown(enabled = true) # rubocop:disable Style/OptionalBooleanParameter -- Puma's signature
          @abaca.note("`drain_on_shutdown false' has no effect: connections that wait are served") unless enabled
        end

        # A TERM ends the process with status 0. With true, Puma's would end as killed by the signal.
        def raise_exception_on_sigterm(enabled = true) # rubocop:disable Style/OptionalBooleanParameter
          @abaca.note("`raise_exception_on_sigterm' has no effect: a TERM that was obeyed ends with 0") if enabled
        end

        # An old name of max_keep_alive, which wins over it.
        def max_fast_inline(number)
          max_keep_alive(number) unless @abaca.settings.key?(:max_requests_per_connection)
        end

        # Header names with `_` that collide with names with `-` are dropped. This version cannot drop all of them.
        def allow_underscore_headers(allowed = true) # rubocop:disable Style/OptionalBooleanParameter
          return if allowed

          raise ConfigError, "allow_underscore_headers false: only names that collide with a `-' name are dropped"
        end
      end
    end
  end
end
