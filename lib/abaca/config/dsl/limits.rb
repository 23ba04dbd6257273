# frozen_string_literal: true

module Abaca
  class Config
    class DSL
      # How much of anything is allowed, for how long, and for whom. Each limit of the native table is a
      # setting by its own name (see docs/limits.md); most other methods are Puma's names for some of them.
      module Limits
        # Those that take more than a value have methods of their own, below.
        (Engine::LIMITS.keys.map(&:to_sym) - %i[request_timeout]).each do |name|
          define_method(name) { |value| @options[name] = Config.check_limit(name, value) }
        end

        # Requests that may be in the app at once, each on a fiber of its own.
        #
        #   max_fibers 1000
        def max_fibers(number)
          @options[:max_fibers] = Admission.fibers(number)
        end

        # Requests that may wait until one of those is done; those beyond get 503. Default 1024.
        #
        #   max_queue 200
        def max_queue(number)
          @options[:max_queue] = Admission.max_queue(number)
        end

        # Octets of request bodies that are held at once before their requests are taken; beyond it requests do
        # not wait for their bodies (docs/rack.md). 0: none waits. Default 64 MB.
        #
        #   max_body_memory_total 16 * 1024 * 1024
        def max_body_memory_total(octets)
          @options[:max_body_memory_total] = Admission.max_body_memory_total(octets)
        end

        # The app is called with the head of requests for these paths, and reads their bodies as they come: for
        # a dialogue in both directions, say. `*` stands for anything (docs/rack.md).
        #
        #   stream_bodies "/chat", "/uploads/*"
        def stream_bodies(*paths)
          @options[:stream_bodies] = [*@options[:stream_bodies], *Admission.stream_bodies(paths)]
        end

        # Seconds that a request may take, 0 for as many as it wants. With `path`, for requests of these paths
        # only: `*` stands for anything, and the first line that matches counts (docs/deadlines.md).
        #
        #   request_timeout 30
        #   request_timeout 0, path: "/events/*"
        def request_timeout(seconds, path: nil)
          if path.nil?
            @options[:request_timeout] = Config.check_limit(:request_timeout, seconds)
          else
            @options[:request_timeouts] =
              [*@options[:request_timeouts], *Admission.request_timeouts([[path, seconds]])]
          end
        end

        # Ends a request's work when its client has gone: Abaca::ClientGone is raised in its fiber, where it
        # waits (docs/deadlines.md).
        #
        #   cancel_on_disconnect
        def cancel_on_disconnect(enabled = true) # rubocop:disable Style/OptionalBooleanParameter -- as Puma's settings
          @options[:cancel_on_disconnect] = enabled ? true : false
        end

        # What it means that a client ends its own side of the connection after its request: `:ask`, it is
        # asked when that matters, by an interim response; `:answer`, it waits for the response; `:gone`, it
        # has gone.
        #
        #   half_close :gone
        def half_close(meaning)
          @options[:half_close] = meaning
        end

        # Seconds for a request's head: `header_timeout`.
        def first_data_timeout(seconds) = header_timeout(seconds)

        # The methods that are served, every other one is answered 501: an Array of names, or :any. CONNECT is
        # never served. Default: those that are registered, but for TRACE.
        #
        #   supported_http_methods %w[HEAD GET POST]
        def supported_http_methods(methods)
          @options[:supported_http_methods] = HttpMethods.check(methods)
        end

        # Requests on one connection: `max_requests_per_connection`. Float::INFINITY is no limit, nil
        # changes nothing.
        def max_keep_alive(number)
          return if number.nil?

          max_requests_per_connection(Float(number).infinite? ? 0 : number)
        end

        # false closes each connection after its first response.
        def enable_keep_alives(enabled = true) # rubocop:disable Style/OptionalBooleanParameter -- Puma's signature
          max_requests_per_connection(1) unless enabled
        end

        # Octets of a request's body: `max_body_size`. nil is no limit.
        def http_content_length_limit(octets)
          if octets.respond_to?(:to_i) && !octets.nil? && octets.to_i <= 0
            raise ConfigError, "http_content_length_limit: #{octets.inspect} would refuse every body; nil is no limit"
          end

          max_body_size(octets || 0)
        end
      end
    end
  end
end
