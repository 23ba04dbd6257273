# frozen_string_literal: true

# An API in a container with socket activation and reforking, tuned by somebody who has read every page of the manual.
load File.join(__dir__, "shared", "metrics.rb")

clear_binds!
set_default_host "0.0.0.0"
port 3000
port 3001, default_host
bind_to_activated_sockets "only"

workers :auto
fork_worker 500
worker_check_interval 2.5
worker_timeout "30"
worker_culling_strategy :oldest
silence_fork_callback_warning

before_refork(:gc) { |_, data| 3.times { GC.start } && (data[:done] = true) }
after_refork { GC.compact if GC.respond_to?(:compact) }
on_refork { GC.start }
before_thread_start { Thread.current[:started] = true }
on_thread_exit { Thread.current[:started] = nil }
out_of_band { GC.start }

max_io_threads 8
fiber_per_request
io_selector_backend :epoll
mutate_stdout_and_stderr_to_sync_on_write false
supported_http_methods Puma::Const::IANA_HTTP_METHODS
allow_underscore_headers true
enable_keep_alives ENV["KEEP_ALIVE"] != "off"
early_hints
idle_timeout 600
shutdown_debug on_force: true
prune_bundler false
extra_runtime_dependencies %w[json]
max_fast_inline 10

app { |env| [200, { "content-type" => "text/plain" }, [env["PATH_INFO"]]] }
custom_logger Class.new { def write(line) = $stderr.write(line) }.new
inject { tag "api" }
plugin :metrics
metrics_url "tcp://127.0.0.1:9394"
debug if ENV["DEBUG"]
