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

          @options[:environment] = name.to_s
          ENV["RACK_ENV"] = name.to_s
        end

        # The rackup file; the first call counts.
        def rackup(path)
          @options[:rackup] ||= path
        end

        # The app itself, instead of a rackup file.
        #
        #   app { |env| [200, {}, ["Hello\n"]] }
        def app(app = nil, &block)
          @options[:app] = app || block || raise(ArgumentError, "app: an app or a block is needed")
        end

        # Text for the process title; "" is none.
        def tag(text)
          @options[:tag] = text.to_s
        end

        # Answers for an app that raises before its response has begun: called with as many of the exception, the env
        # and the status as it accepts, it returns a triplet.
        #
        #   lowlevel_error_handler { |error, env| [500, {}, ["Sorry: #{error.class}\n"]] }
        def lowlevel_error_handler(handler = nil, &block)
          handler ||= block || raise(ArgumentError, "lowlevel_error_handler: a handler or a block is needed")
          raise ArgumentError, "lowlevel_error_handler: #{handler.class} has no call" unless handler.respond_to?(:call)

          @options[:lowlevel_error_handler] = handler
        end

        # Fixes env["rack.url_scheme"], for a server behind a proxy that terminates TLS; "https" brings HTTPS and port
        # 443 with it. Where trusted proxies set the scheme (trusted_proxies), theirs is used.
        def rack_url_scheme(scheme = nil)
          set(:rack_url_scheme, scheme) unless scheme.nil?
        end

        # Puma's name for shutdown_timeout.
        def force_shutdown_after(value = :forever) = shutdown_timeout(value)

        # The number of processes. This version has one: 0, 1 and nil are accepted.
        def workers(count)
          number = count.nil? ? 0 : Integer(count, exception: false)
          if number.nil? || number.negative? || number > 1
            raise ConfigError, "workers #{count}: one process only in this version; use `workers 0' or drop the line"
          end

          note("`workers 1' has no effect: one process serves without a parent") if number == 1
        end

        # Called once the server listens.
        def after_booted(&block) = add_hook(:after_booted, block)
        alias on_booted after_booted

        # Called once the server has stopped.
        def after_stopped(&block) = add_hook(:after_stopped, block)
        alias on_stopped after_stopped

        # Evaluates another file.
        def load(path) = evaluate_file(path)

        # Evaluates a block with this object as self.
        def inject(&) = instance_eval(&)

        # For parts that apply in single mode only, which is always.
        def single(&block)
          raise ArgumentError, "single: a block is needed" unless block

          instance_eval(&block)
        end

        # For parts that apply with several workers only, which this version does not have.
        def cluster(&block)
          raise ArgumentError, "cluster: a block is needed" unless block
        end

        # Reads a setting.
        def get(key, default = nil)
          key = OTHER_NAMES.fetch(key, key)
          @options.fetch(key) { @given.fetch(key, default) }
        end

        private

        def add_hook(name, block)
          raise ArgumentError, "#{name}: a block is needed" unless block

          @options[name] = [*@options[name], block]
        end
      end
    end
  end
end
