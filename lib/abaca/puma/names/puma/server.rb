# frozen_string_literal: true

require_relative "events"
require_relative "log_writer"

# Puma, as gems see it.
module Puma
  # A server beside the one that serves the app, such as a plugin has for its figures: Abaca::Server on threads.
  class Server
    # @return [#call]
    attr_reader :app
    # @return [Events]
    attr_reader :events
    # @return [LogWriter]
    attr_reader :log_writer
    # @return [Integer]
    attr_reader :min_threads, :max_threads
    # @return [Thread, nil] that it runs on
    attr_reader :thread

    # @param app [#call] a Rack app
    # @param events [Events, nil] hear of `:state`
    # @param options [Hash{Symbol => Object}] `min_threads`, `max_threads`, `log_writer`
    def initialize(app, events = nil, options = {}, **words)
      options = options.merge(words)
      @app = app
      @events = events || Events.new
      @log_writer = options[:log_writer] || LogWriter.stdio
      @min_threads, @max_threads = options.values_at(:min_threads, :max_threads).zip([0, 5]).map { |one, no| one || no }
      @server = Abaca::Server.new(app, mode: :thread, threads: [@min_threads, @max_threads],
                                       lowlevel_error_handler: method(:lowlevel_error))
    end

    # @return [Integer] the port
    def add_tcp_listener(host, port, _low_latency = true, backlog = 1024) # rubocop:disable Style/OptionalBooleanParameter
      @server.add_tcp_listener(host, port, backlog:)
    end

    def add_unix_listener(path, umask = nil, mode = nil, backlog = 1024)
      @server.add_unix_listener(path, umask:, mode:, backlog:)
    end

    # Serves.
    #
    # @param background [Boolean] or else on this thread, until the server has stopped
    # @return [Thread]
    def run(background = true, thread_name: "srv") # rubocop:disable Style/OptionalBooleanParameter -- Puma's signature
      @thread = Thread.new do
        Puma.set_thread_name(thread_name)
        tell(:running)
        @server.run
        tell(:done)
      end
      @thread.join unless background
      @thread
    end

    # Stops gracefully.
    #
    # @param sync [Boolean] whether to wait for the end
    def stop(sync = false) = finish(:stop, sync) # rubocop:disable Style/OptionalBooleanParameter -- Puma's signature

    # Stops at once.
    def halt(sync = false) = finish(:halt, sync) # rubocop:disable Style/OptionalBooleanParameter -- Puma's signature

    # @return [Boolean] whether it has been told to stop
    def shutting_down? = %i[stop halt].include?(@state)

    # @return [Integer] threads that serve
    def running = @thread&.alive? ? [@min_threads, 1].max : 0

    # @return [Array<Integer>]
    def connected_ports = @server.urls.filter_map { |url| url[/:(\d+)\z/, 1]&.to_i }

    private

    def finish(how, sync)
      tell(how)
      @thread ? @server.public_send(how) : @server.close
      @thread.join if sync && @thread
    end

    def tell(state)
      @state = state unless state == :done
      @events.fire(:state, state)
    end

    # Answers when the app has raised. Gems prepend modules with this method, to report the error.
    def lowlevel_error(_error, _env, status = 500) = [status, {}, []]
  end
end
