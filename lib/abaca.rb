# frozen_string_literal: true

# The errors come before the native part, which looks their classes up when it is loaded.
require_relative "abaca/version"
require_relative "abaca/errors"
require_relative "abaca/native"
require_relative "abaca/platform"
require_relative "abaca/null_input"
require_relative "abaca/input"
require_relative "abaca/stream"
require_relative "abaca/outbox"
require_relative "abaca/early_hints"
require_relative "abaca/log"
require_relative "abaca/access_log"
require_relative "abaca/config"
require_relative "abaca/page"
require_relative "abaca/stats"
require_relative "abaca/requests"
require_relative "abaca/dump"
require_relative "abaca/scheduler_class"
require_relative "abaca/server"
require_relative "abaca/rails_boot"

# A Rack server that runs each request on a pooled fiber over a native event loop.
#
# Abaca::Server is the server as an object; Abaca::Launcher is what the command runs, with
# signals, banner and pidfile; Abaca::Config holds every setting.
module Abaca
  # Apps find these without a `require`, as under other servers. Their library is loaded when one is named.
  Object.autoload(:StringIO, "stringio")
  %i[Addrinfo BasicSocket IPSocket Socket SocketError TCPServer TCPSocket UDPSocket UNIXServer UNIXSocket].each do |one|
    Object.autoload(one, "socket")
  end

  autoload :CLI, File.expand_path("abaca/cli", __dir__)
  autoload :Compat, File.expand_path("abaca/compat", __dir__)
  autoload :Dashboard, File.expand_path("abaca/dashboard", __dir__)
  autoload :FiberSafety, File.expand_path("abaca/fiber_safety", __dir__)
  autoload :Guest, File.expand_path("abaca/guest", __dir__)
  autoload :Launcher, File.expand_path("abaca/launcher", __dir__)
  autoload :Metrics, File.expand_path("abaca/metrics", __dir__)
  autoload :Packages, File.expand_path("abaca/packages", __dir__)
  autoload :Profile, File.expand_path("abaca/profile", __dir__)
  autoload :PrunedBundle, File.expand_path("abaca/pruned_bundle", __dir__)
  autoload :PumaConfiguration, File.expand_path("abaca/puma/configuration", __dir__)
  autoload :PumaErrors, File.expand_path("abaca/puma/errors", __dir__)
  autoload :PumaGem, File.expand_path("abaca/puma/gem", __dir__)
  autoload :PumaNames, File.expand_path("abaca/puma", __dir__)
  autoload :PumaOptions, File.expand_path("abaca/puma/options", __dir__)
  autoload :RackHandler, File.expand_path("abaca/rack_handler", __dir__)
  autoload :RewindableInput, File.expand_path("abaca/rewindable_input", __dir__)
  autoload :ServerTiming, File.expand_path("abaca/server_timing", __dir__)
  autoload :Sight, File.expand_path("abaca/sight", __dir__)
  autoload :Top, File.expand_path("abaca/top", __dir__)
  autoload :Web, File.expand_path("abaca/web", __dir__)

  class << self
    # Figures of the server that the command runs in this process (or, in a worker, in its master), in Puma's shape
    # with Abaca's own below `abaca` (docs/control.md). Any thread may ask.
    #
    # @return [Hash{Symbol => Object}]
    # @raise [Error] when the command serves nothing here
    def stats_hash
      launcher = Launcher.current or raise Error, "the command serves nothing in this process"
      launcher.stats
    end

    # Says what the request that calls it waits for in the block, where that cannot be seen: for a place in a pool,
    # say. It is what the page, `abaca top` and the dashboard show, and where the time goes (docs/sight.md). On a fiber
    # the block's waits are meant, and what it computes is not; elsewhere the whole block is. Without a request it only
    # yields. The innermost word counts.
    #
    #   Abaca.waiting(:pool) { pool.take }
    #
    # @param kind [Symbol] :db, :cache, :http, :io, :pool, :lock, :sleep, :dns, :disk, :process, :offload or :require
    # @yieldreturn [Object]
    # @return [Object] what the block returns
    # @raise [ArgumentError] for another word
    def waiting(kind, &) = Engine.waiting(kind, &)

    # The same as JSON, on one line.
    #
    # @return [String]
    # @raise [Error] when the command serves nothing here
    def stats
      require "json" # whoever asks needs it, the server does not
      JSON.generate(stats_hash)
    end
  end
end

require_relative "abaca/railtie" if defined?(Rails::Railtie)
require_relative "abaca/capybara" if defined?(Capybara.register_server)
