# frozen_string_literal: true

# A shop on its own machine: deployed into releases with a `current` link, nginx in front at a unix socket, the
# process kept by systemd, logs rotated by logrotate.
app_root = ENV.fetch("APP_ROOT")
shared = File.join(app_root, "shared")

directory app_root
rackup File.join(app_root, "config.ru")
environment ENV.fetch("RAILS_ENV", "production")
tag "shop"

pidfile File.join(shared, "puma.pid")
state_path File.join(shared, "puma.state")
state_permission 0o640
stdout_redirect File.join(shared, "puma.out.log"), File.join(shared, "puma.err.log"), true

bind "unix://#{shared}/puma.sock?umask=0007&backlog=2048"
bind "tcp://127.0.0.1:8080?low_latency=true"
activate_control_app "unix://#{shared}/pumactl.sock", { auth_token: "s3cret", umask: 0o077 }

workers Integer(ENV.fetch("WORKERS", "4"))
threads 2, "8"
preload_app!
worker_timeout 45
worker_boot_timeout 120
worker_shutdown_timeout 20

restart_command "bundle exec puma"
plugin :tmp_restart

log_requests
log_formatter { |line| "[#{Process.pid}] #{line}" }

lowlevel_error_handler do |error, env, status|
  warn "#{status} at #{env['PATH_INFO']}: #{error.message}"
  [status, { "content-type" => "text/plain" }, ["Something went wrong.\n"]]
end

before_fork { ENV["FORKED"] = "0" }
on_worker_boot { |index| ENV["WORKER_INDEX"] = index.to_s }
on_worker_shutdown { ENV.delete("WORKER_INDEX") }
before_restart { ENV["BUNDLE_GEMFILE"] = File.join(app_root, "Gemfile") }
on_worker_fork { |index| ENV["FORKED"] = index.to_s }
after_worker_fork { |index| ENV["FORKED"] = index.to_s }
after_worker_shutdown { |handle| warn "worker #{handle.index} has gone" }
