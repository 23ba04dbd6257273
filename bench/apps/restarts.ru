# frozen_string_literal: true

# Answers, after 5 ms, with the time at which the app was loaded: whoever restarts the server sees when the new code
# serves. The clock is that of all processes.
loaded = format("%020d", Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)).freeze

run(lambda do |_env|
  sleep 0.005
  [200, { "content-type" => "text/plain", "content-length" => loaded.bytesize.to_s }, [loaded]]
end)
