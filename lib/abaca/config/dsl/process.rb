# frozen_string_literal: true

module Abaca
  class Config
    class DSL
      # The process and the app in it.
      module ProcessSettings
        # The name of the environment; the app sees it as RACK_ENV. nil and "", the value of an unset variable, change
        # nothing, since anything but development listens on all addresses.
        def environment(name)
          return if name.to_s.empty?

          @abaca.set(:environment, name.to_s)
          ENV["RACK_ENV"] = name.to_s
        end

        # The rackup file; the first call counts.
        def rackup(path)
          @abaca.set(:rackup, path) unless @abaca.settings[:rackup]
        end

        # The app itself, instead of a rackup file.
        #
        #   app { |env| [200, {}, ["Hello\n"]] }
        def app(app = nil, &block)
          @abaca.set(:app, app || block || raise(ArgumentError, "app: an app or a block is needed"))
        end

        # Text for the process title; "" is none.
        def tag(text)
          @abaca.set(:tag, text.to_s)
        end

        # Answers for an app that raises before its response has begun: called with as many of the exception, the env
        # and the status as it accepts, it returns a triplet.
        #
        #   lowlevel_error_handler { |error, env| [500, {}, ["Sorry: #{error.class}\n"]] }
        def lowlevel_error_handler(handler = nil, &block)
          handler ||= block || raise(ArgumentError, "lowlevel_error_handler: a handler or a block is needed")
          raise ArgumentError, "lowlevel_error_handler: #{handler.class} has no call" unless handler.respond_to?(:call)

          @abaca.set(:lowlevel_error_handler, handler)
        end

        # Fixes env["rack.url_scheme"], for a server behind a proxy that terminates TLS; "https" brings HTTPS and port
        # 443 with it. Where trusted proxies set the scheme (trusted_proxies), theirs is used.
        def rack_url_scheme(scheme = nil)
          @abaca.set(:rack_url_scheme, scheme) unless scheme.nil?
        end

        # Puma's name for shutdown_timeout.
        def force_shutdown_after(value = :forever) = shutdown_timeout(value)
      end
    end
  end
end
