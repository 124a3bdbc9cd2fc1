-- wrk's requests: produces whose key and value change with each. Arguments after `--`:
-- TOPIC SIZE BATCH KEYED SEED. BATCH 1 is a single produce. With KEYED 1 each message has an idempotency key
-- that was never sent before. Prints "ready" when it is, and at its end a line that starts with "driftq".

local topic, size, batch, keyed, seed, filler
local bodies, count = {}, 0
local POOL = 64

local function message(number, identity)
  local text = string.format("%012d", number)
  local envelope = identity and string.format(',"envelope":{"idempotency_key":"%s"}', identity) or ""
  return string.format(
    '{"topic":"%s","key":"user:%012d","value":"%s%s"%s}',
    topic, number % 1000, text, filler, envelope)
end

local function with_head(path, body)
  return "POST " .. path .. " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
    .. #body .. "\r\n\r\n" .. body
end

local function pieces(first)
  -- A batch cut where its identities belong, so that a request only joins strings.
  local all, last = {}, '{"messages":['
  for place = 1, batch do
    local text = message(first + place, "@")
    local at = string.find(text, "@", 1, true)
    all[#all + 1] = last .. string.sub(text, 1, at - 1)
    last = string.sub(text, at + 1) .. ","
  end
  all[#all + 1] = string.sub(last, 1, -2) .. "]}"
  return all
end

function init(args)
  topic, size, batch = args[1], tonumber(args[2]), tonumber(args[3])
  keyed, seed, filler = args[4] == "1", args[5], string.rep("x", size - 12)
  for place = 1, POOL do
    if batch > 1 and keyed then
      bodies[place] = pieces(place * batch)
    elseif batch > 1 then
      local all = {}
      for number = 1, batch do all[number] = message(place * batch + number) end
      bodies[place] = with_head("/v1/produce/batch", '{"messages":[' .. table.concat(all, ",") .. "]}")
    end
  end
  io.write("ready\n")
  io.flush()
end

function request()
  count = count + 1
  if batch == 1 then
    return with_head("/v1/produce", message(count, keyed and string.format("%s-%012d", seed, count) or nil))
  end
  local body = bodies[count % POOL + 1]
  if not keyed then return body end
  local joined = {}
  for place = 1, batch do
    joined[2 * place - 1] = body[place]
    joined[2 * place] = string.format("%s-%09d-%03d", seed, count, place)
  end
  joined[2 * batch + 1] = body[batch + 1]
  return with_head("/v1/produce/batch", table.concat(joined))
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format("driftq %d %d %d %d %d\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
