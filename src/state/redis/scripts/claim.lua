-- Claims due deliveries of one shard, the least recently served endpoint first. Before, it releases expired claims;
-- queues of disabled or deleted endpoints are drained in bounded steps.
-- KEYS: 1 format
-- ARGV: 1 milliseconds to add to the time, 2 maximum of claims, 3 lease in ms
-- Returns: the time in ms, next_due, the fence of these claims, the claims as JSON, and their bodies in the same order. A
--   claim: [delivery, account, endpoint, event, type, number of the attempt, retries used, 1 for manual, requester, 1 for a
--    single attempt, due at ms]
local TAKE_BACK_MAX, DRAIN_MAX = 128, 200

local max, lease_us = tonumber(ARGV[2]), tonumber(ARGV[3]) * 1000
-- No two claims of a delivery end at the same microsecond, so the end of its lease identifies a claim.
local fence = string.format('%.0f', clock_us + lease_us)

local function take_back()
  local ids = redis.call('ZRANGEBYSCORE', CLAIMS, '-inf', clock_us, 'LIMIT', 0, TAKE_BACK_MAX)
  if #ids == 0 then return end
  local records = redis.call('HMGET', DELIVERIES, unpack(ids))
  local fences = redis.call('ZMSCORE', CLAIMS, unpack(ids))
  for i, id in ipairs(ids) do put_back(id, records[i], fences[i]) end
  write_deliveries()
end

local drained = 0

local function drain(queue)
  local ids = redis.call('ZRANGE', queue.key, 0, DRAIN_MAX - drained - 1)
  if #ids == 0 then return end
  local records = redis.call('HMGET', DELIVERIES, unpack(ids))
  for i, id in ipairs(ids) do
    local head, attempts = head_of(records[i])
    finish_delivery(id, head, FAILED, 'endpoint_' .. queue.status)
    later('ZREM', queue.key, id)
    later('HSET', DELIVERIES, id, cmsgpack.pack(head) .. attempts)
  end
  drained = drained + #ids
end

local claimed = {}

local function serve(queue)
  local room = math.min(queue.cap - queue.in_flight, max - #claimed)
  if room <= 0 then return end
  local ids = redis.call('ZRANGEBYSCORE', queue.key, '-inf', clock_us, 'LIMIT', 0, room)
  for _, id in ipairs(ids) do
    claimed[#claimed + 1] = id
    later('ZREM', queue.key, id)
    later('ZADD', CLAIMS, fence, id)
  end
  queue.in_flight = queue.in_flight + #ids
  queue.is_served = true
end

local function answer()
  if #claimed == 0 then return { now, next_due(), fence, '[]' } end
  local records = redis.call('HMGET', DELIVERIES, unpack(claimed))
  local list = {}
  for i, id in ipairs(claimed) do
    local head = head_of(records[i])
    list[i] = {
      id, head[ACCOUNT], head[ENDPOINT], head[EVENT], head[TYPE], head[ATTEMPTS] + 1, head[RETRIES], head[IS_MANUAL],
      head[BY], head[IS_SINGLE], math.floor(head[DUE_US] / 1000),
    }
  end
  return { now, next_due(), fence, cjson.encode(list), unpack(redis.call('HMGET', BODIES, unpack(claimed))) }
end

take_back()
for _, name in ipairs(redis.call('ZRANGEBYSCORE', TURNS, '-inf', clock_us, 'LIMIT', 0, max)) do
  local queue = queue_of(string.match(name, '^([^:]*):(.*)$'))
  if queue.status == 'enabled' then
    serve(queue)
  elseif drained < DRAIN_MAX then
    drain(queue)
  end
  if #claimed >= max then break end
end
write_deliveries()
return answer()
