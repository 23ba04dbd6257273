# frozen_string_literal: true

# Puma, as gems see it.
module Puma
  # As plugins see it.
  Launcher = Abaca::Launcher::Plugins::ForPlugins
end
