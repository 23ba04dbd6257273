# frozen_string_literal: true

module Abaca
  class Config
    class DSL
      # How others control the server.
      module Control
        # Starts a control server, for `abacactl` (docs/control.md): at `unix:///path`, `tcp://127.0.0.1:PORT`, or a
        # unix socket of its own for "auto". `auth_token:` is what it asks for, a random one by default;
        # `operate_token:` and `read_token:` allow less; `no_token: true` asks for none; `data_only: true` gives figures
        # only; `umask:` is for the socket's file, which is its owner's alone by default.
        #
        #   activate_control_app "unix:///run/app/control.sock", auth_token: ENV.fetch("TOKEN")
        def activate_control_app(url = "auto", options = {})
          unknown = options.keys - %i[auth_token operate_token read_token no_token data_only umask]
          raise ArgumentError, "activate_control_app: #{unknown.first} is unknown" if unknown.any?

          url = format("%<url>s?umask=%<umask>04o", url:, umask: options[:umask]) if options[:umask]
          @abaca.set(:control_url, url)
          @abaca.set(:control_auth_token, options[:no_token] ? "none" : options[:auth_token])
          @abaca.set(:control_operate_token, options[:operate_token])
          @abaca.set(:control_read_token, options[:read_token])
          @abaca.set(:control_data_only, options.fetch(:data_only, false))
        end

        # Listens at the sockets that systemd hands over, too; with :only, at nothing else.
        def bind_to_activated_sockets(bind = true) # rubocop:disable Style/OptionalBooleanParameter -- Puma's signature
          @abaca.set(:bind_to_activated_sockets, bind)
        end

        # A plugin that was made for Puma: `puma/plugin/NAME.rb` in $LOAD_PATH (docs/plugins.md). Two are built in:
        # `:tmp_restart` restarts the server when `tmp/restart.txt`, or the file of the variable RESTART_FILE, is
        # touched; `:systemd` is always there.
        #
        #   plugin :tmp_restart
        #   plugin :solid_queue if ENV["SOLID_QUEUE_IN_PUMA"]
        def plugin(name)
          @abaca.add(:plugins, name)
          @abaca.plugins.add(name.to_s, self, @abaca.place)
        end

        # The number of processes that serve, below a master; 0 is one process without one. `:auto` counts what this
        # process may use of the machine (docs/configuration.md).
        #
        #   workers ENV.fetch("WEB_CONCURRENCY", 2)
        def workers(count)
          @abaca.set(:workers, count)
        end

        # Puma's: workers are forked from worker 0. Abaca forks them from the master.
        def fork_worker(after_requests = Types::Reforks::USUAL)
          @abaca.set(:fork_worker, after_requests)
        end
      end
    end
  end
end
