# frozen_string_literal: true

module Abaca
  class Config
    class DSL
      # The process and the app in it.
      module ProcessSettings
        # The name of the environment; the app sees it as RACK_ENV. nil and "", the value of a variable that is
        # not set, change nothing: what is not development listens on all addresses.
        def environment(name)
          return if name.to_s.empty?

          @options[:environment] = name.to_s
          ENV["RACK_ENV"] = name.to_s
        end

        # The rackup file; the first call counts.
        def rackup(path)
          @options[:rackup] ||= path
        end

        # The app itself, in place of a rackup file.
        #
        #   app { |env| [200, {}, ["Hello\n"]] }
        def app(app = nil, &block)
          @options[:app] = app || block || raise(ArgumentError, "app: an app or a block is needed")
        end

        # The directory to change into before the app is loaded.
        def directory(path)
          @options[:directory] = path
        end

        # A file that holds the process id while the server runs.
        def pidfile(path)
          @options[:pidfile] = path
        end

        # Text for the process title; "" is none.
        def tag(text)
          @options[:tag] = text.to_s
        end

        # Offers env["rack.early_hints"] to the app, which sends a 103 with what it is called with.
        def early_hints(answer = true) # rubocop:disable Style/OptionalBooleanParameter -- Puma's signature
          @options[:early_hints] = answer ? true : false
        end

        # Answers for an app that has raised before its response has begun: it is called with the exception, the
        # env and the status, as many of them as it takes, and returns a triplet.
        #
        #   lowlevel_error_handler { |error, env| [500, {}, ["Sorry: #{error.class}\n"]] }
        def lowlevel_error_handler(handler = nil, &block)
          handler ||= block || raise(ArgumentError, "lowlevel_error_handler: a handler or a block is needed")
          raise ArgumentError, "lowlevel_error_handler: #{handler.class} has no call" unless handler.respond_to?(:call)

          @options[:lowlevel_error_handler] = handler
        end

        # Whether a client sees the text and the backtrace of what the app raises, where nothing else answers.
        # Default: in development and test.
        def show_errors(enabled = true) # rubocop:disable Style/OptionalBooleanParameter -- as the other switches
          @options[:show_errors] = enabled ? true : false
        end

        # Fixes env["rack.url_scheme"], for a server behind a proxy that terminates TLS; "https" brings HTTPS
        # and port 443 with it. Where trusted proxies say the scheme (trusted_proxies), theirs wins.
        def rack_url_scheme(scheme = nil)
          return if scheme.nil?
          raise ArgumentError, "rack_url_scheme: http or https, not #{scheme}" unless %w[http https].include?(scheme)

          @options[:rack_url_scheme] = scheme
        end

        # Whether a request's body can be read again after `rewind`: what was read is kept, in memory up
        # to `max_body_memory` and in a temporary file above it. Default: true under Rack 2, which
        # demands it, and false under Rack 3.
        def rewindable_input(enabled = true) # rubocop:disable Style/OptionalBooleanParameter -- as the other switches
          @options[:rewindable_input] = enabled ? true : false
        end

        # false leaves rack.input out of requests without a body, as Rack 3.1 allows; the default is an
        # empty input, since much middleware reads without asking.
        def null_input(enabled = true) # rubocop:disable Style/OptionalBooleanParameter -- as the other switches
          @options[:null_input] = enabled ? true : false
        end

        # How long requests in flight may take after a stop, before they are broken off: seconds, :forever or
        # :immediately. Default 30.
        def shutdown_timeout(value)
          @options[:shutdown_timeout] =
            case value
            when :forever then nil
            when :immediately then 0.0
            else Float(value)
            end
        end

        # Puma's name for it.
        def force_shutdown_after(value = :forever) = shutdown_timeout(value)

        # For how many seconds the server goes on as before when it is told to stop, while its readiness path says
        # 503: so long may a load balancer take to notice. Default 0.
        def shutdown_delay(seconds)
          @options[:shutdown_delay] = Float(seconds)
        end

        # After how many seconds without a new connection and without a request the server stops by itself; 0 is
        # never, the default.
        #
        #   idle_timeout 300
        def idle_timeout(seconds)
          @options[:idle_timeout] = Float(seconds)
        end

        # A path that tells whether the server wants requests: 200, and 503 from the moment on when it begins to stop.
        # The server answers it itself, without the app, also while the app is busy.
        #
        #   readiness "/readyz"
        def readiness(path)
          @options[:readiness] = path
        end

        # A path that tells that the server lives: 200. Answered as `readiness` is.
        #
        #   liveness "/livez"
        def liveness(path)
          @options[:liveness] = path
        end

        # The Fiber::Scheduler that requests run on: a class or its name. Default "Abaca::Scheduler".
        #
        #   fiber_scheduler "Async::Scheduler"
        def fiber_scheduler(name)
          @options[:fiber_scheduler] = name
        end

        # The number of processes. This version has one: 0, 1 and nil are accepted.
        def workers(count)
          number = count.nil? ? 0 : Integer(count, exception: false)
          if number.nil? || number.negative? || number > 1
            raise ConfigError, "workers #{count}: one process only in this version; use `workers 0' or drop the line"
          end

          note("`workers 1' has no effect: one process serves without a parent") if number == 1
        end

        # Called once the server listens.
        def after_booted(&block) = add_hook(:after_booted, block)
        alias on_booted after_booted

        # Called once the server has stopped.
        def after_stopped(&block) = add_hook(:after_stopped, block)
        alias on_stopped after_stopped

        # Evaluates another file.
        def load(path) = evaluate_file(path)

        # Evaluates a block with this object as self.
        def inject(&) = instance_eval(&)

        # For parts that count in single mode only, which is every time.
        def single(&block)
          raise ArgumentError, "single: a block is needed" unless block

          instance_eval(&block)
        end

        # For parts that count with several workers only, which this version does not have.
        def cluster(&block)
          raise ArgumentError, "cluster: a block is needed" unless block
        end

        # Reads a setting.
        def get(key, default = nil)
          key = OTHER_NAMES.fetch(key, key)
          @options.fetch(key) { @given.fetch(key, default) }
        end

        private

        def add_hook(name, block)
          raise ArgumentError, "#{name}: a block is needed" unless block

          @options[name] = [*@options[name], block]
        end
      end
    end
  end
end
