# frozen_string_literal: true

# Puma, as gems see it.
module Puma
  # Puma's own pool of threads.
  class ThreadPool
    # Ends a request when the server has to stop.
    ForceShutdown = Abaca::Shutdown
  end
end
