# frozen_string_literal: true

require_relative "puma/cluster"
require_relative "puma/configuration"
require_relative "puma/const"
require_relative "puma/detect"
require_relative "puma/dsl"
require_relative "puma/events"
require_relative "puma/minissl"
require_relative "puma/plugin"
require_relative "puma/single"
require_relative "puma/thread_pool"

# Puma, as gems see it. Abaca::PumaNames::Served has more methods of the module.
module Puma
  # These load more, and are rarely used.
  autoload :CLI, File.expand_path("puma/cli", __dir__)
  autoload :Launcher, File.expand_path("puma/launcher", __dir__)
  autoload :LogWriter, File.expand_path("puma/log_writer", __dir__)
  autoload :Server, File.expand_path("puma/server", __dir__)

  # A setting that this system cannot have. Abaca raises its own Abaca::ConfigError, or warns; the name is for those
  # that rescue it.
  class UnsupportedOption < RuntimeError; end

  # What a request gets when its client has gone, or has sent what cannot be read.
  ConnectionError = Abaca::PeerError
  HttpParserError = Abaca::BodyError

  class << self
    # Tells where the figures are. Gems read the variable.
    #
    # @param object [#stats]
    def stats_object=(object)
      @get_stats = object
    end

    # @return [Hash{Symbol => Object}] the figures of the server of this process
    def stats_hash = @get_stats.stats

    # Names the thread of a plugin.
    def set_thread_name(name) # rubocop:disable Naming/AccessorMethodName -- Puma's name
      Thread.current.name = "puma #{name}"
    end
  end
end
