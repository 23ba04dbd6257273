# frozen_string_literal: true

# What the frameworks' Gemfiles share.
source Gem.sources.first.uri.to_s

gem "abaca", path: "../.."
gem "irb", path: "irb"

# What comes with this Ruby will do; a newer one would be compiled.
bigdecimal = Gem::Specification.stubs_for("bigdecimal").find(&:default_gem?)
gem "bigdecimal", bigdecimal.version.to_s if bigdecimal
