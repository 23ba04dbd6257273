# frozen_string_literal: true

module Abaca
  class Config
    class DSL
      # What can be seen of requests (docs/sight.md).
      module Sight
        # What is at the other end of the app's connections, where the port does not tell. A host is an address, or a
        # name that has some when the server is made.
        #
        #   service "db", "10.0.0.9:6432"
        #   service "cache", 7000
        #   service "db", "/run/pgbouncer.sock"
        def service(kind, place)
          @abaca.add(:services, [kind, place])
        end

        # Paths of requests that only ask whether the app lives; `*` matches anything.
        #
        #   metrics_ignore "/up", "/health/*"
        def metrics_ignore(*paths)
          @abaca.add(:metrics_ignore, *paths)
        end
      end
    end
  end
end
