# frozen_string_literal: true

module Abaca
  class Config
    class DSL
      # Limits that take more than a value, and Puma's names for some whose values mean something else there.
      module Limits
        # Calls the app with the head of requests for these paths; it reads their bodies as they arrive, for example
        # in a dialogue in both directions. `*` matches anything (docs/rack.md).
        #
        #   stream_bodies "/chat", "/uploads/*"
        def stream_bodies(*paths)
          @abaca.add(:stream_bodies, *paths)
        end

        # Seconds that a request may take, 0 for no limit. With `path`, for requests of these paths only: `*` matches
        # anything, and the first line that matches counts (docs/deadlines.md).
        #
        #   request_timeout 30
        #   request_timeout 0, path: "/events/*"
        def request_timeout(seconds, path: nil)
          if path.nil?
            @abaca.set(:request_timeout, seconds)
          else
            @abaca.add(:request_timeouts, [path, seconds])
          end
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

        # Bytes of a request's body: `max_body_size`. nil is no limit.
        def http_content_length_limit(bytes)
          if bytes.respond_to?(:to_i) && !bytes.nil? && bytes.to_i <= 0
            raise ConfigError, "http_content_length_limit: #{bytes.inspect} would refuse every body; nil is no limit"
          end

          max_body_size(bytes || 0)
        end
      end
    end
  end
end
