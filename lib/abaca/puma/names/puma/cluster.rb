# frozen_string_literal: true

# Puma, as gems see it.
module Puma
  # What `Puma.stats_object=` gets in a master and its workers (Abaca::PumaNames::Runner).
  class Cluster
    # Stops the server.
    def stop_workers = @launcher.stop
  end
end
