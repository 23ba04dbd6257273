# frozen_string_literal: true

module Abaca
  class Config
    class DSL
      # What requests run on (docs/modes.md).
      module Modes
        # The least and the most threads that run requests. Default 0 and 5, as in Puma.
        #
        #   threads 0, 16
        def threads(least, most = least)
          @abaca.set(:threads, [least, most])
        end

        # Which requests run on threads, which on fibers, and which on either, overriding `mode`. The first pattern
        # that matches the path counts; `*` matches anything.
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
          @abaca.add(:routes, *routes.list)
        end
      end
    end
  end
end
