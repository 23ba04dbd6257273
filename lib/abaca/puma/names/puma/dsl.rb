# frozen_string_literal: true

# Puma, as gems see it.
module Puma
  # Plugins add methods here, which configuration files call from then on; they keep what they are told in `@options`.
  # Settings of the server are methods, too (Abaca::Config::Plugins::Settings).
  class DSL
  end
end
