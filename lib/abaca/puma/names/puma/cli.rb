# frozen_string_literal: true

require_relative "../puma"

# Puma, as gems see it.
module Puma
  CLI = Abaca::CLI
end
