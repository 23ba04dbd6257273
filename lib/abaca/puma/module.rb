# frozen_string_literal: true

require "json"

# What exporters of figures and configuration files ask the module itself.
module Puma
  # A setting that this system cannot have. Abaca raises its own Abaca::ConfigError, or warns; the name is for those
  # that rescue it.
  class UnsupportedOption < RuntimeError; end

  class << self
    # @return [#stats] what #stats_hash asks
    attr_writer :stats_object

    # @return [Hash{Symbol => Object}] the figures of the server of this process, as Abaca.stats_hash
    def stats_hash = @stats_object.stats

    # @return [String] the same as JSON
    def stats = JSON.generate(stats_hash)

    # Names the thread of a plugin.
    def set_thread_name(name) # rubocop:disable Naming/AccessorMethodName -- Puma's name
      Thread.current.name = "puma #{name}"
    end

    def jruby? = RUBY_ENGINE == "jruby"
    def windows? = false
    def forkable? = Process.respond_to?(:fork)
    def ssl? = !Abaca::TLS_LIBRARY.nil?
  end
end
