# frozen_string_literal: true

require_relative "../abaca"

module Abaca
  # Abaca as a server of Capybara's, `Capybara.server = :abaca, { Silent: true }`. Requiring abaca registers it if
  # Capybara is loaded; Rails' system tests always register it; elsewhere, require this file.
  #
  # Requests run on threads, since the tests of an app share a thread's database connection with it, unless `mode`
  # says otherwise. `Host`, `Port`, `Threads` and `Silent` mean what they mean to Puma; everything else is a setting.
  module CapybaraServer
    # As many threads as Capybara gives Puma.
    DEFAULTS = { mode: :thread, threads: [0, 4], environment: "test" }.freeze
    WORDS = %i[Host Port Threads Silent workers daemon].freeze
    private_constant :DEFAULTS, :WORDS

    class << self
      # @return [nil]
      def register
        ::Capybara.register_server(:abaca) { |app, port, host, **options| serve(app, port, host, options) }
        nil
      end

      # Serves on the calling thread until the process ends.
      #
      # @param app [#call]
      # @param port [Integer]
      # @param host [String]
      # @param options [Hash{Symbol => Object}]
      # @return [nil]
      def serve(app, port, host, options = {})
        server = Server.new(app, settings(options))
        server.add_tcp_listener(options.fetch(:Host, host), options.fetch(:Port, port))
        unless options[:Silent]
          server.log.info("Capybara starting Abaca...")
          server.log.info("* Abaca version: #{VERSION}")
          server.urls.each { |url| server.log.info("* Listening on #{url}") }
          server.log.flush # before the tests' own output
        end
        server.run
      end

      private

      def settings(options)
        settings = DEFAULTS.merge(options.except(*WORDS))
        settings[:threads] = options[:Threads].to_s if options[:Threads]
        settings.delete(:threads) if settings[:mode].to_sym == :fiber
        settings
      end
    end

    register
  end
end
