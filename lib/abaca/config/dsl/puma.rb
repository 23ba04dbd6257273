# frozen_string_literal: true

module Abaca
  class Config
    class DSL
      # Puma's settings that have no meaning here, or none yet. They are accepted, so that a Puma file works
      # unchanged, and each gives one line of warning.
      module PumaSettings
        ONE_PROCESS = "one process only in this version"
        ALWAYS = "this is always so"
        NOT_YET = "this version does not have it"

        # name => why it has no effect
        WITHOUT_EFFECT = {
          max_io_threads: NOT_YET, before_thread_start: NOT_YET, on_thread_start: NOT_YET,
          before_thread_exit: NOT_YET, on_thread_exit: NOT_YET,
          preload_app!: ONE_PROCESS, prune_bundler: ONE_PROCESS, extra_runtime_dependencies: ONE_PROCESS,
          fork_worker: ONE_PROCESS, wait_for_less_busy_worker: ONE_PROCESS, worker_timeout: ONE_PROCESS,
          worker_boot_timeout: ONE_PROCESS, worker_shutdown_timeout: ONE_PROCESS, worker_check_interval: ONE_PROCESS,
          worker_culling_strategy: ONE_PROCESS, silence_single_worker_warning: ONE_PROCESS,
          silence_fork_callback_warning: ONE_PROCESS,
          before_fork: ONE_PROCESS, before_worker_boot: ONE_PROCESS, on_worker_boot: ONE_PROCESS,
          before_worker_shutdown: ONE_PROCESS, on_worker_shutdown: ONE_PROCESS, before_worker_fork: ONE_PROCESS,
          on_worker_fork: ONE_PROCESS, after_worker_fork: ONE_PROCESS, after_worker_boot: ONE_PROCESS,
          after_worker_shutdown: ONE_PROCESS, before_refork: ONE_PROCESS, on_refork: ONE_PROCESS,
          after_refork: ONE_PROCESS,
          before_restart: NOT_YET, on_restart: NOT_YET, restart_command: NOT_YET,
          activate_control_app: NOT_YET, state_path: NOT_YET, state_permission: NOT_YET,
          queue_requests: ALWAYS, drain_on_shutdown: ALWAYS, out_of_band: NOT_YET,
          shutdown_debug: NOT_YET,
          bind_to_activated_sockets: "bind \"fd://3\" takes such a socket",
          raise_exception_on_sigterm: "a TERM that was obeyed ends with 0",
          max_fast_inline: "max_keep_alive is its name today",
          io_selector_backend: "the loop is native",
          mutate_stdout_and_stderr_to_sync_on_write: "log lines have a writer of their own"
        }.freeze

        WITHOUT_EFFECT.each do |name, why|
          define_method(name) { |*, **, &_block| note("`#{name}' has no effect: #{why}") }
        end

        # Puma's plugins reach into Puma's own objects.
        def plugin(name)
          note("plugin #{name.inspect} is not run: #{NOT_YET}")
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
