# frozen_string_literal: true

# In place of the gem that Rails and Hanami want for their consoles. Serving needs none, and what irb
# brings along takes longer to compile than all tests of the frameworks.
Gem::Specification.new do |spec|
  spec.name = "irb"
  spec.version = "1.15.0"
  spec.authors = ["The Abaca authors"]
  spec.summary = "No console"
  spec.files = []
  spec.required_ruby_version = ">= 3.1"
  spec.metadata = { "rubygems_mfa_required" => "true" }
end
