# frozen_string_literal: true

require_relative "lib/abaca/version"

Gem::Specification.new do |spec|
  spec.name = "abaca"
  spec.version = Abaca::VERSION
  spec.authors = ["The Abaca authors"]
  spec.summary = "A Rack server that runs each request on a pooled fiber over a native event loop"
  spec.description = "Abaca serves Rack applications. One native loop is both the HTTP engine and the thread's " \
                     "fiber scheduler, so a request that waits parks its fiber and blocks nobody."
  spec.license = "MIT"
  spec.homepage = "https://github.com/abaca-server/abaca"
  spec.required_ruby_version = ">= 3.1"

  spec.files = Dir["lib/**/*.{rb,html,css,js}",
                   "ext/**/*.{c,h,rb,md}", "exe/*", "sig/**/*.rbs", "docs/**/*.md",
                   "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"]
  spec.bindir = "exe"
  spec.executables = %w[abaca abacactl puma pumactl]
  spec.extensions = ["ext/abaca/extconf.rb"]
  spec.require_paths = ["lib"]
  spec.metadata = { "rubygems_mfa_required" => "true" }

  spec.add_dependency "rack", ">= 2.2", "< 4"
end
