# frozen_string_literal: true

# Puma, as gems see it.
module Puma
  Configuration = Abaca::PumaConfiguration
end
