# frozen_string_literal: true

# Puma, as gems see it.
module Puma
  # What `Puma.stats_object=` gets in a single process (Abaca::PumaNames::Runner).
  class Single; end
end
