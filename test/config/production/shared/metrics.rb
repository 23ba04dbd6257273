# frozen_string_literal: true

# Loaded by another file.
activate_control_app "auto", no_token: true, data_only: true
after_booted { ENV["METRICS"] = "1" }
