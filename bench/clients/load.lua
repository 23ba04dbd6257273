-- What wrk runs for every load. Its argument is the number of requests in one write. In any case it
-- prints its figures as one line that the benchmark can read.
local batch

function init(args)
  local depth = tonumber(args[1] or "1")
  if depth > 1 then
    local one = wrk.format()
    batch = string.rep(one, depth)
    -- Defined here only, because wrk calls it for every request.
    request = function() return batch end
  end
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    "FIGURES requests=%d microseconds=%d mean=%d p50=%d p99=%d connect=%d read=%d write=%d status=%d timeout=%d\n",
    summary.requests, summary.duration, latency.mean, latency:percentile(50), latency:percentile(99),
    errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end
