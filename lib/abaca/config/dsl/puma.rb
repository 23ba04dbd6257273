# frozen_string_literal: true

module Abaca
  class Config
    class DSL
      # Puma's settings that have no meaning here, or none yet. They are accepted, so that a Puma file works
      # unchanged, and each gives one line of warning.
      module PumaSettings
        ALWAYS = "this is always so"
        NOT_YET = "this version does not have it"

        # name => why it has no effect
        WITHOUT_EFFECT = {
          max_io_threads: NOT_YET, shutdown_debug: NOT_YET,
          queue_requests: ALWAYS, drain_on_shutdown: ALWAYS,
          extra_runtime_dependencies: "the process keeps the gems of its start",
          wait_for_less_busy_worker: "a worker without room accepts nothing",
          raise_exception_on_sigterm: "a TERM that was obeyed ends with 0",
          max_fast_inline: "max_keep_alive is its name today",
          io_selector_backend: "the loop is native",
          mutate_stdout_and_stderr_to_sync_on_write: "log lines have a writer of their own"
        }.freeze

        WITHOUT_EFFECT.each do |name, why|
          define_method(name) { |*, **, &_block| note("`#{name}' has no effect: #{why}") }
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
