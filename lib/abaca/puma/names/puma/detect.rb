# frozen_string_literal: true

# Puma, as gems see it.
module Puma
  class << self
    def jruby? = RUBY_ENGINE == "jruby"
    def windows? = false
    def forkable? = Process.respond_to?(:fork)
  end
end
