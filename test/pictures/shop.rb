# frozen_string_literal: true

# Settings of the server of bin/pictures.
bind "tcp://127.0.0.1:0"
workers 2
tag "shop"
state_path "state"
max_fibers 40
max_queue 100
service "db", "127.0.0.1:#{ENV.fetch('DATABASE')}"
activate_control_app "tcp://127.0.0.1:0", auth_token: ENV.fetch("TOKEN")
dashboard true
