# frozen_string_literal: true

# A service on a platform that sets PORT, WEB_CONCURRENCY and RAILS_MAX_THREADS, stops it by TERM, and has a load
# balancer with keep-alive in front.
max_threads = ENV.fetch("RAILS_MAX_THREADS", 5)
min_threads = ENV.fetch("RAILS_MIN_THREADS") { max_threads }
threads min_threads, max_threads

port ENV["PORT"] || 3000
environment ENV["RACK_ENV"] || "production"
rackup Puma.const_defined?(:Const) ? "config.ru" : "other.ru"

persistent_timeout 75
first_data_timeout 15
max_keep_alive Float::INFINITY
http_content_length_limit 20 * 1024 * 1024
set_remote_address header: "X-Forwarded-For"
rack_url_scheme "https" if ENV["RACK_ENV"] == "production"

force_shutdown_after 25
drain_on_shutdown
raise_exception_on_sigterm false
queue_requests true
silence_single_worker_warning

cluster do
  preload_app!
  worker_timeout ENV.fetch("RACK_ENV", "production") == "development" ? 3600 : 60
  wait_for_less_busy_worker 0.001
  before_fork { ENV["PARENT"] = "1" }
  before_worker_boot(:pool) { |_index, data| data[:pool] = Object.new }
  before_worker_shutdown(:pool) { |_index, data| data.delete(:pool) }
end

single do
  tag "#{get(:environment)}-single"
  worker_timeout 30
end

quiet
on_booted { ENV["BOOTED"] = "1" }
on_stopped { ENV.delete("BOOTED") }
