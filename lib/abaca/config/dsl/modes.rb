# frozen_string_literal: true

module Abaca
  class Config
    class DSL
      # What requests run on (docs/modes.md).
      module Modes
        # `:fiber`, the default: each request on a fiber. `:thread`: each on a thread, for code that does not
        # bear fibers. `:hybrid`: on fibers, and on threads the requests of such routes as keep the loop too
        # often.
        #
        #   mode :thread
        def mode(name)
          @options[:mode] = Config::Modes.mode(name)
        end

        # The least and the most threads that run requests. Default 0 and 5, as in Puma.
        #
        #   threads 0, 16
        def threads(least, most = least)
          @options[:threads] = Config::Modes.threads([least, most])
        end

        # For how many milliseconds a request may keep the loop at a stretch: when more than 5 of 100 requests
        # of a hybrid route keep it for longer, the next ones run on threads. Default 50.
        #
        #   hybrid_threshold 50
        def hybrid_threshold(milliseconds)
          @options[:hybrid_threshold] = Config::Modes.hybrid_threshold(milliseconds)
        end

        # From how many requests on a hybrid route is judged. Default 20, at most 128.
        #
        #   hybrid_requests 20
        def hybrid_requests(number)
          @options[:hybrid_requests] = Config::Modes.hybrid_requests(number)
        end

        # Which requests run on threads, which on fibers, and which on either, whatever `mode` says. The first
        # pattern that matches the path counts; `*` stands for anything.
        #
        #   routes do
        #     fiber "/reports/live"
        #     thread "/reports/*"
        #     hybrid "/search/*"
        #   end
        def routes(&block)
          raise ArgumentError, "routes: a block is needed" unless block

          routes = Config::Modes::Routes.new
          routes.instance_eval(&block)
          @options[:routes] = [*@options[:routes], *Config::Modes.routes(routes.list)]
        end

        # Whether what a request leaves in Thread.current[] and in thread variables is taken off before the
        # next one runs on the thread. Default false, as in Puma: libraries keep connections there. A fiber
        # is always clean.
        def clean_thread_locals(enabled = true) # rubocop:disable Style/OptionalBooleanParameter -- Puma's signature
          @options[:clean_thread_locals] = enabled ? true : false
        end
        alias fiber_per_request clean_thread_locals
      end
    end
  end
end
