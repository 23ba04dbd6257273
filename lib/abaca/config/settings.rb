# frozen_string_literal: true

require_relative "values"
require_relative "types"
require_relative "table"
require_relative "admission"
require_relative "http_methods"
require_relative "modes"
require_relative "proxies"
require_relative "services"
require_relative "tls"

module Abaca
  class Config # rubocop:disable Metrics/ClassLength -- a table
    # The table of settings. Everything else about them comes from it: the methods of configuration files, the flags and
    # their help, what Server.new takes, defaults and checks, and the tables of docs/configuration.md (`rake settings`),
    # whose headlines are those of the sections. Limits have their defaults, units and texts from the native table.
    #
    # A row is: name, default, what it may be, what it is for, and other columns of Setting by name.
    SECTIONS = Table.sections do # rubocop:disable Metrics/BlockLength -- a table
      section "Where to listen" do
        any(:binds, [].freeze, "a URL, below", "adds a place to listen at",
            file: %i[bind], level: :process, flags: %w[-b --bind])
        file_only(:port, "a port, and perhaps a host", "adds a TCP port",
                  shown: "`9292` when no place is given", flags: %w[-p --port])
        file_only(:clear_binds!, "", "forgets the places given so far")
        setting(:default_host, nil, Types::Text.new("an address or a name"), "where ports without a host listen",
                shown: "`\"127.0.0.1\"` in development and test, else `\"0.0.0.0\"`",
                file: %i[set_default_host], level: :process)
        file_only(:default_host, "", "returns what `set_default_host` was given")
        file_only(:ssl_bind, "a host, a port, options below", "adds a TCP port with TLS", page: "tls.md")
      end

      section "TLS" do
        checked(:certificates, [].freeze, "`cert:`, `key:`; or `cert_pem:`, `key_pem:`; `key_password_command:`",
                "a certificate for all `ssl://` places, chosen by the name that a client asks for",
                TLS.method(:certificates), file: %i[certificate], page: "tls.md",
                                           object: "`certificate`; an Array of Hashes like `{ cert:, key: }`")
        setting(:tls_ticket_key_file, nil, Types::Text.new("a file with 32 bytes or more"),
                "a secret that several hosts, or several starts, share, so that clients can resume their sessions",
                page: "tls.md", shown: "a new one at each start")
        switch(:dev_tls, false, "in development, TCP ports speak TLS with a certificate of the gem `localhost`",
               page: "tls.md", level: :process, flag: ["--dev-tls"])
        %i[tls_handshake_timeout max_tls_handshakes max_tls_connections tls_handshake_rate].each { |name| limit(name) }
      end

      section "The app and its process" do
        any(:environment, "development", "a name; nil and `\"\"` change nothing",
            "the environment, which the app sees as `RACK_ENV`",
            level: :process, flag: ["-e", "--environment NAME"])
        setting(:rackup, "config.ru", Types::Text.new("a file"), "what is served",
                level: :process, flags: ["the argument"])
        any(:app, nil, "an app or a block", "what is served instead of a rackup file", level: :process)
        any(:directory, nil, "a folder",
            "the working directory; relative paths of app, pidfile and logs begin there",
            shown: "where it was started", level: :process, flag: ["--dir DIR"])
        any(:pidfile, nil, "a file", "holds the process id while the server runs", level: :process, flag: true)
        any(:tag, nil, "text; `\"\"` is none", "stands in the process title: `abaca 0.1.0 (URLS) [TAG]`",
            shown: "the folder's name", level: :process, flag: ["--tag NAME"])

        any(:lowlevel_error_handler, nil, "an object with `call`, or a block",
            "answers for an app that has raised", page: "rack.md")
        switch(:show_errors, nil, "clients see the message and the backtrace of such an error",
               shown: "true in development and test", page: "rack.md")
        switch(:early_hints, false, "offers `rack.early_hints` (103)", page: "rack.md", flag: ["--early-hints"])
        switch(:rewindable_input, nil, "a request's body can be read again",
               shown: "`false`, but `true` under Rack 2", page: "rack.md")
        setting(:null_input, true, Types::NullInput.new, "false: no `rack.input` without a body", page: "rack.md")
      end

      section "Workers" do
        time = Types::Seconds.new(zero: false)
        setting(:workers, 0, Types::Workers.new, "processes that serve, below a master; 0: one process, no master",
                level: :process, flag: ["-w", "--workers COUNT"])
        switch(:preload_app, nil, "the master loads the app before it forks, so that workers share its memory",
               shown: "true with several workers, without prune_bundler",
               file: %i[preload_app!], level: :process, flag: ["--preload"])
        setting(:fork_worker, nil, Types::Reforks.new,
                "the number of requests of worker 0 after which the others are forked from it; 0: on command only",
                page: "cluster.md", level: :process, flag: ["-f", "--fork-worker=[REQUESTS]"])
        setting(:worker_timeout, 60.0, Types::WorkerTimeout.new, "a worker silent for longer is replaced",
                level: :process)
        setting(:worker_boot_timeout, 60.0, time, "a worker that boots for longer is replaced", level: :process)
        setting(:worker_shutdown_timeout, 30.0, Types::Seconds.new, "a worker that stops for longer is killed",
                level: :process)
        setting(:worker_check_interval, 5.0, time, "how often workers report", level: :process)

        # Workers with regard to each other.
        setting(:worker_culling_strategy, :youngest, Types::Choice.new(:youngest, :oldest),
                "which worker goes when there are to be fewer", level: :process)
        switch(:worker_balance, true, "connections whose requests wait move to workers that have less to do",
               page: "cluster.md#which-worker-gets-a-connection", level: :process)

        setting(:worker_max_requests, nil, Types::Count.new("requests", 1..),
                "a worker that has had as many is replaced", page: "cluster.md", level: :process)
        setting(:worker_max_age, nil, Types::Seconds.new(zero: false),
                "a worker that is older is replaced", page: "cluster.md", level: :process)
        setting(:worker_max_memory, nil, Types::Count.new("bytes", 1..),
                "the largest worker is replaced when it has more (PSS)", page: "cluster.md", level: :process)
        setting(:worker_cool_down, 60.0, Types::Seconds.new,
                "the pause between two such replacements", page: "cluster.md", level: :process)

        switch(:prune_bundler, false, "the master leaves the bundle, and each worker enters it anew",
               page: "cluster.md", level: :process, flag: ["--prune-bundler"])
        checked(:extra_runtime_dependencies, [].freeze, "names of gems",
                "gems that the master needs all the same, with prune_bundler, for its configuration file or plugins",
                ->(value) { [*value].flat_map { |names| names.to_s.split(",") }.freeze },
                page: "cluster.md", level: :process, flag: ["--extra-runtime-dependencies GEMS"])
        switch(:silence_single_worker_warning, false, "no warning for `workers 1`", level: :process)
        switch(:silence_fork_callback_warning, false, "no warning for hooks of workers where there are none",
               level: :process)
      end

      section "Restarts and control" do
        any(:state_path, nil, "a file", "tells `abacactl` the process id and the control server",
            page: "control.md", level: :process, flag: ["-S", "--state PATH"])
        setting(:state_permission, nil, Types::FileMode.new, "the mode of this file",
                shown: "0600 with a token, else what the umask leaves", level: :process)
        file_only(:activate_control_app, "a URL, `\"auto\"`; `auth_token:`, `operate_token:`, `read_token:`, " \
                                         "`no_token:`, `data_only:`, `umask:`",
                  "a control server for `abacactl`; `\"auto\"` is a unix socket in a folder of its own",
                  page: "control.md", flags: %w[--control-url --control-token])
        setting(:control_url, nil, Types::ControlUrl.new, "where a control server listens; auto: a unix socket",
                file: [], level: :process, flag: ["--control-url URL"])
        any(:control_auth_token, nil, "", "what it asks for", file: [], level: :process,
                                                              shown: "a random one",
                                                              flag: ["--control-token TOKEN"])
        any(:control_operate_token, nil, "", "allows looks, and acts that end nothing", file: [], level: :process)
        any(:control_read_token, nil, "", "allows looks alone", file: [], level: :process)
        switch(:dashboard, nil, "a page for browsers on a port of its own on 127.0.0.1, with a link to it at the start",
               page: "sight.md#the-dashboard",
               shown: "true in development, unless the variable ABACA_DASHBOARD is false",
               level: :process, flag: ["--dashboard"])
        switch(:control_data_only, false, "it only answers questions", file: [], level: :process)
        setting(:bind_to_activated_sockets, false, Types::Activation.new,
                "listens at the sockets of systemd too, or at nothing else",
                level: :process, flag: ["--bind-to-activated-sockets [only]"])

        any(:restart_command, nil, "a command", "what a restart executes, with the arguments of the start",
            shown: "the command of the start", page: "signals.md", level: :process,
            flag: ["-R", "--restart-cmd COMMAND"])
        setting(:restart_timeout, 120.0, Types::Seconds.new(zero: false),
                "how long the new program may boot at a hot restart", page: "signals.md", level: :process)
        switch(:restart_overlap, true, "false: at a hot restart, the new program boots when the old one has ended",
               page: "signals.md", level: :process)

        setting(:plugins, [].freeze, Types::Names.new("a name"),
                "runs a plugin that was made for Puma; `:tmp_restart` and `:systemd` are built in",
                page: "plugins.md",
                file: %i[plugin], level: :process, flag: ["--plugin NAME"])
      end

      section "What requests run on" do
        setting(:mode, :fiber, Types::Choice.new(*Modes::NAMES), "what requests run on",
                page: "modes.md", flag: ["--mode MODE"])
        checked(:routes, [].freeze, "a block", "the same, by path", Modes.method(:routes),
                page: "modes.md", object: "`routes`; an Array of `[:thread, \"/reports/*\"]`")
        checked(:threads, [0, 5].freeze, "the least, the most",
                "threads that run requests, in the modes that have any", Modes.method(:threads),
                page: "modes.md", flag: ["-t", "--threads MIN:MAX"])
        switch(:clean_thread_locals, false, "a request finds none of the last one's thread-locals",
               aliases: %i[fiber_per_request], page: "modes.md")
        setting(:hybrid_threshold, 50, Types::Milliseconds.new(0.001, 60_000),
                "hybrid routes whose requests keep the loop for longer get threads", page: "modes.md", flag: true)
        # The native part remembers no more requests of a route.
        setting(:hybrid_requests, 20, Types::Count.new("requests", 1..128),
                "requests after which a hybrid route is judged", page: "modes.md", flag: true)
        any(:fiber_scheduler, "Abaca::Scheduler", "a class or its name", "the scheduler that the fibers run on",
            page: "guest_mode.md", flag: ["--fiber-scheduler CLASS"])
      end

      section "How many at once" do
        setting(:max_fibers, nil, Types::Count.new("fibers", 1..), "requests in the app at once",
                shown: "`#{Admission::MAX_FIBERS}`", page: "overload.md", flag: true)
        # As many as the kernel's queue of connections holds, where they would wait otherwise. A server that
        # answers forty a second has answered the last of them when `queue_timeout` is over.
        setting(:max_queue, 1024, Types::Count.new("requests", 0.., most: (2**32) - 1),
                "requests that wait for a place in the app; 503 beyond", page: "overload.md", flag: true)
        limit(:queue_timeout, page: "overload.md", flag: true)
      end

      section "Requests that compute" do
        time = Types::Milliseconds.new(0, 60_000)
        setting(:stall_after, 20, time, "a loop that makes no turn for longer gets help; 0: never",
                page: "stalls.md", flag: true)
        # More threads than this only compete for the interpreter.
        setting(:spare_loops, 8, Types::Count.new("threads", 0..64, none: 0), "loops that may help; 0: none",
                page: "stalls.md", flag: true)
        setting(:stall_report, 100, time, "requests that keep a loop for longer are logged; 0: none",
                page: "stalls.md", flag: true)
        setting(:gvl_wait_target, nil, time, "no longer has an effect, and gives a warning: see `stall_after`",
                page: "stalls.md", flag: true)
        # A shorter one would not be noticed.
        setting(:quantum, nil, Types::Milliseconds.new(0.5, 60_000, off: true),
                "a fiber that computes for longer makes room; 0: never",
                shown: "off", page: "scheduler.md", flag: true)
      end

      section "What can be seen" do
        setting(:slow_after, 0.5, Types::Seconds.new, "a request that takes longer is kept in the page; 0: none is",
                page: "sight.md")
        switch(:server_timing, nil, "responses say where the time went: `Server-Timing`",
               shown: "true in development", page: "sight.md#server-timing")
        checked(:server_timing_secret, nil, "a String of 16 bytes or more",
                "elsewhere those do whose requests have a field that is signed with it",
                ->(secret) { secret && ServerTiming.check(secret) }, page: "sight.md#server-timing")
        checked(:metrics_ignore, [].freeze, "paths",
                "health checks of the app's, say: neither in histograms nor in the access log",
                Admission.method(:metrics_ignore), page: "metrics.md#what-spoils-percentiles")
        switch(:opentelemetry, true, "spans of OpenTelemetry say what their requests have waited for",
               page: "metrics.md#opentelemetry")
        setting(:metrics_routes, 64, Types::Count.new("routes", 0..64), "routes that are told apart",
                page: "metrics.md")
        setting(:metrics_port, nil, Types::MetricsPort.new, "where Prometheus finds `/metrics`, and nothing else",
                page: "metrics.md", level: :process, flag: ["--metrics-port [HOST:]PORT"])
        checked(:services, [].freeze,
                "`\"db\"`, `\"cache\"`, `\"http\"` or `\"io\"`; a host and a port, a port or a path",
                "what is at the other end of the app's connections, beside the usual ports", Services.method(:check),
                file: %i[service], page: "sight.md", object: "`service`; an Array of `[\"db\", \"10.0.0.9:5432\"]`")
      end

      section "Deadlines" do
        limit(:request_timeout, values: "from 0, perhaps with `path:`", page: "deadlines.md", flag: true)
        switch(:cancel_on_disconnect, false, "cancels a request whose client disconnects",
               page: "deadlines.md", flag: true)
        setting(:half_close, :ask, Types::Choice.new(:ask, :answer, :gone),
                "what it means when a client ends its side of the connection", page: "deadlines.md")
        file_only(:queue_requests, "true",
                  "requests are always read before a thread or a fiber gets them; false gives a warning")
        limit(:header_timeout, aliases: %i[first_data_timeout], flag: true)
        limit(:body_timeout, flag: true)
        limit(:min_body_rate)
        limit(:write_timeout, flag: true)
        limit(:min_send_rate)
        limit(:rate_grace)
        limit(:persistent_timeout, flag: true)
        limit(:linger_timeout)
        limit(:dead_peer_timeout)
      end

      section "Limits" do
        limit(:max_body_size, flag: true)
        file_only(:http_content_length_limit, "from 1; nil is any", "Puma's name for `max_body_size`")
        limit(:max_requests_per_connection)
        file_only(:max_keep_alive, "from 1; `Float::INFINITY` is any",
                  "Puma's name for `max_requests_per_connection`; nil changes nothing")
        file_only(:max_fast_inline, "from 1; `Float::INFINITY` is any",
                  "an old name of `max_keep_alive`, which wins")
        file_only(:enable_keep_alives, "true, false", "false: each connection is closed after one request")
        checked(:supported_http_methods, nil, "names, `:any`",
                "the methods served; others: 501. By default the registered ones except TRACE; CONNECT never is",
                HttpMethods.method(:check))
        %i[max_request_line max_header_line max_header_count max_head_size max_trailer_count max_trailer_size
           max_chunk_line max_chunk_extensions max_chunk_overhead max_proxy_header].each { |name| limit(name) }

        limit(:body_window)
        limit(:max_unread_body)
        limit(:max_body_memory)
        # A thousand bodies of the length that may be buffered for each.
        setting(:max_body_memory_total, 64 * 1024 * 1024, Types::Count.new("bytes", 0.., most: (2**63) - 1),
                "all bodies buffered before the app is called; 0: none", page: "rack.md")
        checked(:stream_bodies, [].freeze, "paths",
                "the app is called with the head, and reads the body as it arrives",
                Admission.method(:stream_bodies), page: "rack.md")

        limit(:max_slow_clients, page: "overload.md")
        %i[max_streams stream_window connection_window http2_max_requests http2_max_age].each { |name| limit(name) }
        %i[max_pending_output max_pending_files max_pending_files_total].each { |name| limit(name) }
      end

      section "Proxies" do
        checked(:trusted_proxies, [].freeze,
                "addresses, networks, `:loopback`, `:private`; `fields: :forwarded`",
                "proxies whose `X-Forwarded-*`, or `Forwarded`, is trusted",
                Proxies.method(:trusted), page: "proxies.md")
        checked(:remote_address, :socket, "`:socket`, `:localhost`, a String, `header:`, `proxy_protocol: :v1`",
                "`REMOTE_ADDR` where there is no such list", Proxies.method(:remote_address),
                file: %i[set_remote_address], page: "proxies.md", object: "`set_remote_address`")
        checked(:rack_url_scheme, "http", "`\"http\"`, `\"https\"`",
                "the scheme, where a proxy in front terminates TLS", Proxies.method(:scheme), page: "proxies.md")
        file_only(:allow_underscore_headers, "true",
                  "names with `_` are kept unless they collide with one with `-`; false is refused")
      end

      section "Logs" do
        switch(:log_requests, false, "the access log: one line a request", flags: %w[-v --log-requests])
        file_only(:quiet, "true, false", "the opposite of `log_requests`", flags: %w[-q --quiet])
        checked(:access_log_format, :puma, "`:puma`, `:common`, `:combined`, `:json`, a block",
                "what a line of the access log looks like: puma, common, combined or json",
                AccessLog.method(:check), page: "logs.md", flag: ["--access-log-format FORMAT"])
        setting(:log_level, :info, Types::Choice.new(*Log::LEVELS.keys),
                "the least level that the server logs; the access log has none",
                page: "logs.md", flag: ["--log-level LEVEL"])
        setting(:log_format, :text, Types::Choice.new(*Log::Forms::NAMES), "what the server's own lines look like",
                page: "logs.md", flag: ["--log-format FORMAT"])
        any(:formatter, nil, "a block",
            "gets each line of information and of the access log, returns the line to write",
            file: %i[log_formatter], level: :process)
        any(:logger, nil, "an object with `write`",
            "receives these lines; warnings and errors go to standard error",
            shown: "standard output", file: %i[custom_logger], level: :process)
        setting(:redirect, nil, Types::Redirect.new, "files for both; HUP reopens them",
                file: %i[stdout_redirect], level: :process, page: "signals.md",
                flags: %w[--redirect-stdout --redirect-stderr --redirect-append --no-redirect-append])

        switch(:debug, false, "backtraces of errors at boot, and `log_level :debug`",
               level: :process, flag: ["--debug"])
        switch(:log_config, false, "logs the effective configuration at start", file: [], level: :process)
        switch(:silent, false, "errors only", file: [], level: :process, flags: %w[-s --silent])
      end

      section "The end, and health checks" do
        setting(:shutdown_delay, 0.0, Types::Seconds.new,
                "how long the server still accepts after a stop", page: "signals.md", flag: true)
        setting(:shutdown_timeout, 30.0, Types::Seconds.new({ forever: nil, immediately: 0.0, nil => nil }),
                "how long requests may take after that",
                aliases: %i[force_shutdown_after], page: "signals.md", flag: true)
        file_only(:drain_on_shutdown, "true",
                  "connections that wait when the server stops are always served; false gives a warning")
        file_only(:raise_exception_on_sigterm, "false",
                  "a TERM that was obeyed ends with 0; true gives a warning")
        setting(:idle_timeout, 0.0, Types::Seconds.new({ nil => 0.0 }),
                "stops the server after this time without a client; 0: never", page: "signals.md", flag: true)
        setting(:readiness, nil, Types::HealthPath.new(:liveness), "a health check: 200, and 503 after a stop",
                page: "signals.md", flag: true)
        setting(:liveness, nil, Types::HealthPath.new(:readiness), "a health check: 200",
                page: "signals.md", flag: true)
      end

      section "Hooks, and parts of the file" do
        hook(:after_booted, "the server listens, just before it serves. An exception ends the server",
             aliases: %i[on_booted])
        hook(:after_stopped, "the last request is done", aliases: %i[on_stopped])

        worker_hook(:before_fork, "the master is about to fork the first worker")
        worker_hook(:before_worker_fork, "the master is about to fork a worker", aliases: %i[on_worker_fork])
        worker_hook(:after_worker_fork, "the master has forked a worker", aliases: %i[after_worker_boot])
        worker_hook(:before_worker_boot, "a worker begins; it has not loaded the app unless that is preloaded",
                    aliases: %i[on_worker_boot], keyed: true)
        worker_hook(:before_worker_shutdown, "a worker has done its last request",
                    aliases: %i[on_worker_shutdown], keyed: true)
        worker_hook(:after_worker_shutdown, "the master has seen the end of a worker")
        worker_hook(:before_refork, "worker 0 has stopped serving, and is about to fork others",
                    aliases: %i[on_refork], keyed: true)
        worker_hook(:after_refork, "worker 0 is about to serve again", keyed: true)

        hook(:before_thread_start, "a thread for requests has begun, on this thread",
             aliases: %i[on_thread_start], level: :server, page: "modes.md")
        hook(:before_thread_exit, "a thread for requests is about to end, on this thread",
             aliases: %i[on_thread_exit], level: :server, page: "modes.md")
        hook(:out_of_band, "after a request, when the process has no other; none begins meanwhile",
             level: :server, page: "cluster.md")

        hook(:before_restart, "the process executes itself anew", aliases: %i[on_restart])
        file_only(:load, "a file", "evaluates another file at once")
        file_only(:inject, "a block",
                  "evaluates the block as part of the file, for libraries with settings")
        file_only(:single, "a block", "the same after all files, for a single process")
        file_only(:cluster, "a block", "the same after all files, for workers")
        file_only(:get, "a setting's name, a default", "reads what the file has set so far, and the environment")
      end

      # Settings that files have in other forms, or not at all.
      section "As an object" do
        checked(:request_timeouts, [].freeze, "", "", Admission.method(:request_timeouts),
                file: [], level: :object, object: "`request_timeout`, `path:`; a Hash of seconds by pattern")
        setting(:forwarded_fields, :x_forwarded, Types::Choice.new(*Proxies::FIELDS), "",
                file: [], level: :object, object: "`trusted_proxies`, `fields:`")
        setting(:script_name, "", Types::Prefix.new, "", file: [], level: :object,
                                                         object: "the variable `SCRIPT_NAME`")
        any(:log, nil, "", "", shown: "a new one on standard output and error", file: [], level: :object,
                               object: "an `Abaca::Log`: `Abaca::Log.new(out, err, level: :warn, format: :json)`")
        any(:errors, nil, "", "", shown: "standard error", file: [], level: :object,
                                  object: "what `rack.errors` writes to")
      end
    end

    # The settings by name.
    SETTINGS = SECTIONS.values.flatten.select(&:name).to_h { |setting| [setting.name, setting] }.freeze
    # The defaults; nil also for computed ones.
    DEFAULTS = SETTINGS.transform_values(&:default).freeze
    # Other names of settings.
    OTHER_NAMES = SETTINGS.values.flat_map { |setting| setting.aliases.product([setting.name]) }.to_h.freeze
  end
end
