# frozen_string_literal: true

require_relative "error_answers"
require_relative "heart"
require_relative "out_of_band"
require_relative "listener"
require_relative "plain_fields"
require_relative "pool_gate"
require_relative "rejections"
require_relative "saturation"
require_relative "scheduler"
require_relative "server/tls_listeners"
require_relative "stall_events"
require_relative "stall_reports"
require_relative "tls"

module Abaca
  # A server as an object: an app, the places it listens at, and one native loop.
  #
  #   server = Abaca::Server.new(app, max_body_size: 1_000_000)
  #   port = server.add_tcp_listener("localhost", 0)
  #   thread = Thread.new { server.run }
  #   server.stop
  #   thread.join
  #
  # Several may run in one process, each on its own thread.
  class Server
    include TLSListeners

    # @return [Config]
    attr_reader :config
    # @return [Log]
    attr_reader :log

    # @param app [#call] a Rack app
    # @param options [Hash{Symbol => Object}, Config] `settings` or `config` as a positional argument
    # @param config [Config, nil] the settings that are not named here; nil: the defaults
    # @param slot [Page::Slot, nil] where the server says how it is and counts while it runs; claimed, by then, by the
    #   process that runs it (docs/page.md)
    # @param multiprocess [Boolean] whether other processes serve the same app: `rack.multiprocess`
    # @param settings [Hash{Symbol => Object}] settings of docs/configuration.md by name, which win over `config`:
    #   `max_body_size: 1_000_000`, say
    # @raise [ConfigError] for an unknown setting, a value out of range, a class that is not a scheduler, or a gem
    #   that would corrupt data in this mode
    def initialize(app, options = {}, config: nil, slot: nil, multiprocess: false, **settings)
      raise ConfigError, "#{app.class} is no Rack app: it has no call" unless app.respond_to?(:call)

      @config = configuration(options, config, settings)
      @scheduler_class = SchedulerClass.of(@config[:fiber_scheduler])
      check_hybrid
      @multiprocess = multiprocess
      @log = @config[:log] || Log.new(level: @config[:log_level], format: @config[:log_format])
      Compat.adapt(@config, @log)
      @slot = slot
      @log.on_loss { |error| slot.note(:log, "lines are lost: #{error.message}") } if slot
      @out_of_band = OutOfBand.new(@config.hooks(:out_of_band), @log)
      @engine = Engine.new(app, { **engine_options, slot:, balance: @config[:worker_balance] })
      @contexts = [] # of the listeners, in their order: nil for one without TLS
      @sources = [] # of certificates that this object has read
      @reloading = Mutex.new # or a listener might miss what its source has
      rejections = Rejections.new(self)
      saturation = Saturation.new(@log)
      @with_heart = [-> { rejections.look(@engine.stats[:rejected]) }, -> { saturation.look(@engine) }]
      @state = :new
    end

    # Raises TypeError: a copy would have the same listeners and connections.
    def initialize_copy(_other)
      raise TypeError, "a server cannot be copied"
    end

    # Listens on every address of a host.
    #
    # @param host [String] an address or a name; `localhost` is every loopback address
    # @param port [Integer] 0 lets the kernel choose, the same port for all addresses where it is free
    # @param backlog [Integer] connections that may wait to be accepted
    # @param defer_accept [Boolean] accept a connection only when its first bytes are there
    # @param reuse_port [Boolean] let other processes listen on the same port
    # @param terms [Hash{Symbol => Object}] for the connections that are accepted here. `limits`: Hash of those
    #   limits of docs/configuration.md that differ from the server's; `proxy_protocol`: :v1, :v2 or :any when
    #   connections begin with a PROXY header; `proxy_from`: Array of the networks whose connections do, all by
    #   default; `h2c`: whether a client may begin with HTTP/2 without TLS; `redirect`: :https sends clients to the
    #   same host and path with TLS, at `redirect_port` (443), if it is one of `redirect_hosts`, by default those that
    #   certificates of this server name (docs/tls.md)
    # @return [Integer] the port (the first address's, should they differ)
    # @raise [ConfigError] if the host has no address, or an option is invalid
    # @raise [SystemCallError] if the port is taken or not allowed
    def add_tcp_listener(host, port, backlog: Config::Bind::BACKLOG, defer_accept: true, reuse_port: false, **terms)
      listen(**terms) do |limits|
        options = { backlog:, defer_accept:, reuse_port:, dead_after: Listener.dead_after(limits) }
        Listener.of_host(host, port, log: @log, **options)
      end
    end

    # Listens on a unix socket. A stale socket file is replaced, a live one is an error.
    #
    # @param path [String] `@name` is an abstract socket
    # @param backlog [Integer] connections that may wait to be accepted
    # @param umask [Integer, nil] while the socket file is created
    # @param mode [Integer, nil] the socket file's mode
    # @param terms [Hash{Symbol => Object}] as for #add_tcp_listener; the peer of a unix socket is 127.0.0.1
    # @return [nil]
    # @raise [ConfigError] if an option is invalid
    # @raise [SystemCallError]
    def add_unix_listener(path, backlog: Config::Bind::BACKLOG, umask: nil, mode: nil, **terms)
      listen(**terms) { [Listener.unix(path, backlog:, umask:, mode:)] }
      nil
    end

    # Listens on a socket that already listens, for example one that this process has inherited. It belongs to the
    # server, which closes it when it stops. Other processes that hold it, and the kernel, keep listening, so a
    # successor finds every connection.
    #
    # @param fd [Integer] the number of its descriptor
    # @param terms [Hash{Symbol => Object}] as for #add_tcp_listener
    # @return [nil]
    # @raise [ConfigError] when an option has no meaning
    # @raise [SystemCallError] if it is not a listening socket
    def add_listener_fd(fd, **terms)
      listen(**terms) { [Listener.adopt(fd)] }
      nil
    end

    # Listens with a Listener that is open already, perhaps since before a fork. It belongs to the server from now on:
    # to this process's, in a forked child.
    #
    # @param listener [Listener]
    # @param terms [Hash{Symbol => Object}] as for #add_tcp_listener
    # @return [nil]
    # @raise [ConfigError] when an option has no meaning
    def add_listener(listener, **terms)
      listen(**terms) { [listener] }
      nil
    end

    # @return [Array<String>] where it listens, as URLs
    def urls
      @engine.listeners.zip(@contexts).map do |place, context|
        Listener.url(place, context ? "https" : @config[:rack_url_scheme])
      end
    end

    # Calls the block about once a second, on a thread beside the loop, while a server with a slot runs. To be called
    # before that.
    def each_second(&block) = @with_heart << block

    # Serves on the calling thread until the server is stopped; the thread must not have a fiber
    # scheduler. Listeners are closed when it returns.
    #
    # @return [nil]
    # @raise [Error] if it ran before, the thread has a scheduler, or this process has not claimed its slot
    # @raise [ConfigError] if `fiber_scheduler` does not work here
    def run
      raise Error, "a server runs only once" unless @state == :new
      raise Error, "this thread has a fiber scheduler; run the server on a thread of its own" if Fiber.scheduler

      @state = :running
      begin
        show_limits
        Compat.adapt(@config, @log) # for gems that were loaded meanwhile
        @out_of_band.between_requests(@engine) do
          Heart.beat(@engine, @slot, @with_heart) { PoolGate.attach(@engine, @slot) { serve } }
        end
      ensure
        @state = :stopped
        @engine.close
        @config[:log] ? @log.flush : @log.close # somebody else's is used after this
      end
    end

    # Stops gracefully: accepts nothing new, lets requests in flight finish, and then #run returns. What
    # is left after `shutdown_timeout` seconds is broken off with Shutdown. Any thread and any
    # trap handler may call it.
    #
    # @return [nil]
    def stop
      @engine.stop
      nil
    end

    # Stops gracefully, while other processes continue with the same listeners: without `shutdown_delay`, ready to the
    # last, and the files of unix sockets stay. Any thread may call it.
    #
    # @return [nil]
    def hand_over
      @engine.hand_over
      nil
    end

    # Stops at once: requests in flight are broken off with Shutdown. Any thread and any trap
    # handler may call it.
    #
    # @return [nil]
    def halt
      @engine.halt
      @guest&.hurry
      nil
    end

    # Closes the listeners of a server that is not going to run.
    #
    # @return [nil]
    def close
      @engine.close
      nil
    end

    # @return [Boolean] whether requests run on Abaca's own scheduler
    def native? = @scheduler_class <= Scheduler

    # @return [Hash{Symbol => Object}] figures of docs/stats.md; any thread may ask, at any time
    def stats = Stats.of(@engine, @pool, @log)

    # The state of every request in flight, those in the app first, and in each group the oldest first: `id`, `phase`,
    # `age` (seconds), `method`, `path`, `peer`, `waiting_for`, `detail`, `frame`, `backtrace` and others of
    # docs/signals.md. Any thread and any trap handler may call it; nothing is recorded beforehand.
    #
    # @return [Array<Hash{Symbol => Object}>]
    def requests = Requests.new(*sources).to_a

    # What Requests and Dump take: the engine, and the server's own scheduler while it runs.
    #
    # @return [Array(Engine, Scheduler)]
    def sources = [@engine, @scheduler]

    # More requests may wait, or fewer; until the server ends. Any thread may call it.
    #
    # @param count [Integer] as the setting `max_queue`
    # @raise [ConfigError] if there cannot be so many
    def max_queue=(count)
      @config = @config.with(max_queue: count)
      @engine.max_queue = @config[:max_queue]
      show_limits
    end

    # Ends a request in the app: EndedByOperator is raised where it waits, and its client gets 503. Any thread may call
    # it.
    #
    # @param id [Integer] as #requests has it
    # @return [Boolean] false if there is none, or it was cancelled already
    def cancel(id) = @engine.cancel(id)

    # The same as text, with the fibers that belong to no request, and all threads.
    #
    # @return [String]
    def dump = Dump.new(Requests.new(*sources)).to_s

    private

    # For those who read the page.
    def show_limits = (@slot.limit(Config::Modes.places(@config), @config[:max_queue]) if @slot&.mine?)

    def configuration(options, config, settings)
      return options.with(settings) if options.is_a?(Config)

      settings = options.merge(settings)
      return Config.new(settings) if config.nil?
      raise ConfigError, "config: an Abaca::Config is needed, not #{config.inspect}" unless config.is_a?(Config)

      config.with(settings)
    end

    # Only Abaca's own scheduler knows when a fiber gives its loop back.
    def check_hybrid
      return if native? || !Config::Modes.hybrid?(@config)

      raise ConfigError, "fiber_scheduler: #{@scheduler_class} does not tell how long a request keeps its loop, " \
                         "which mode :hybrid has to know; use routes { thread \"/path/*\" } (docs/modes.md)"
    end

    def serve
      return serve_on_threads if Config::Modes.threads_lead?(@config)

      native? ? serve_natively : serve_as_guest
    end

    # Before it had a thread for signals (3.3), Ruby saw them only where one of its threads slept; those of the engine
    # wait natively.
    def serve_on_threads
      sleeper = Thread.new { sleep } if RUBY_VERSION < "3.3"
      @engine.run_on_threads
    ensure
      sleeper&.kill
    end

    def serve_as_guest
      @guest = Guest.new(@engine, @scheduler_class, max_fibers: Config::Admission.most_fibers(@config), log: @log,
                                                    watched: !@slot.nil?)
      @guest.run
    end

    def serve_natively
      @pool = FiberPool.new(max: Config::Admission.most_fibers(@config))
      on_scheduler do |scheduler|
        @scheduler = scheduler
        @engine.run(scheduler, @pool)
      end
    ensure
      @scheduler = nil
    end

    # A spare loop, on the thread that the native part has created for it.
    def serve_beside
      Thread.current.name = "abaca spare"
      Thread.current.report_on_exception = false
      pool = FiberPool.new(max: Config::Admission.most_fibers(@config))
      on_scheduler { |scheduler| @engine.run_spare(scheduler, pool) }
    end

    def on_scheduler
      quantum = @config[:quantum]
      scheduler = quantum ? @scheduler_class.new(quantum: quantum / 1000.0) : @scheduler_class.new
      Fiber.set_scheduler(scheduler)
      yield scheduler
      nil
    ensure
      # This also waits for fibers that the app started.
      Fiber.set_scheduler(nil) if scheduler
    end

    def access_log
      return {} unless @config[:log_requests]

      worker = @slot&.index if @multiprocess
      log = AccessLog.new(@log, @config[:access_log_format], ignored: @config[:metrics_ignore], worker:)
      { access_log: log, access_times: log.times? }
    end

    def engine_options
      require "rack" # here, since a master that has no app needs none
      { limits: @config.limits, log: @log, plain_fields: PlainFields.new(@log),
        error_answers: ErrorAnswers.of(@config),
        **access_log, server_timing: @config.server_timing,
        errors: @config[:errors] || $stderr,
        early_hints: @config[:early_hints],
        url_scheme: @config[:rack_url_scheme], multiprocess: @multiprocess, script_name: @config[:script_name],
        **@config.to_h.slice(:shutdown_timeout, :shutdown_delay, :idle_timeout, :readiness, :liveness),
        rack_release: Rack.release,
        cancel_on_disconnect: @config[:cancel_on_disconnect], half_close: @config[:half_close],
        rewindable_input: rewindable_input?, null_input: @config[:null_input],
        methods: Config::HttpMethods.engine_option(@config[:supported_http_methods]),
        stall_reporter: StallReports.new(@log, @slot && StallEvents.new(@slot)),
        spare_maker: (method(:serve_beside).to_proc if native?),
        **Config::Admission.engine_options(@config), **Config::Stalls.engine_options(@config),
        **Config::Services.engine_options(@config),
        **Config::Modes.engine_options(@config), thread_begins: calls(:before_thread_start),
        thread_ends: calls(:before_thread_exit), out_of_band: @out_of_band.to_proc,
        **Config::Proxies.engine_options(@config) }
    end

    # Rack 2 wants it.
    def rewindable_input?
      wanted = @config[:rewindable_input]
      wanted.nil? ? Rack.release.to_i < 3 : wanted
    end

    # @return [Proc, nil] that calls the blocks of a hook
    def calls(hook)
      blocks = @config.hooks(hook)
      -> { blocks.each { |block| block.run(@log) } } unless blocks.empty?
    end

    def listener_terms(limits: {}, h2c: false, tls: nil, **others)
      redirect, proxies = others.partition { |name, _| name.start_with?("redirect", "plain_http") }.map(&:to_h)
      { limits: Config::Values.check_limits(limits), h2c: Config::Bind.h2c(h2c), tls:, **redirect_terms(**redirect),
        **Config::Proxies.listener_of(@config, Config::Proxies.listener(**proxies)) }
    end

    # The engine takes the listeners that the block opens for these limits; closes those that it does not take.
    # Returns the first port.
    def listen(**terms)
      terms = listener_terms(**terms)
      listeners = yield @engine.limits.merge(terms[:limits])
      port = listeners.first.port
      listeners.each do |listener|
        @engine.listen(listener, **terms)
        @contexts << terms[:tls]
      end
      port
    ensure
      listeners&.each(&:close)
    end
  end
end
