# frozen_string_literal: true

# The namespace of Puma's names.
module Puma
  # Plugins add methods here, which configuration files call from then on; they keep what they are told in `@options`.
  # Settings of the server are methods, too (Abaca::Config::Plugins::Settings).
  class DSL
  end
end
