-- wrk's requests: appends of one event each, to aggregates of their own. Arguments after `--`: SIZE SEED.
-- Prints "ready" when it is, and at its end a line that starts with "driftq".

local filler, seed, count = "", "", 0

function init(args)
  filler, seed = string.rep("x", tonumber(args[1])), args[2]
  io.write("ready\n")
  io.flush()
end

function request()
  count = count + 1
  local id = string.format("%s-%012d", seed, count)
  local body = string.format(
    '{"event_id":"%s","aggregate_type":"order","aggregate_id":"%s","event_type":"OrderPlaced",'
    .. '"operation":"create","kind":"event","payload":{"text":"%s"}}', id, id, filler)
  return "POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
    .. #body .. "\r\n\r\n" .. body
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format("driftq %d %d %d %d %d\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
