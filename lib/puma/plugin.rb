# frozen_string_literal: true

# What plugins of Puma begin with: Puma's own file if its gem is in the bundle, Abaca's otherwise.
require_relative "../abaca/puma/gem"
Abaca::PumaGem.there? ? Abaca::PumaGem.require("puma/plugin") : require_relative("../abaca/puma")
