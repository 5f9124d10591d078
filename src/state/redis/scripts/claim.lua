-- Claims due deliveries of one shard, the least recently served endpoint first. Before, it releases expired claims and creates
-- deliveries of waiting events; queues of disabled or deleted endpoints are drained in bounded steps.
-- KEYS: 1 format
-- ARGV: 1 milliseconds to add to the time, 2 maximum of claims, 3 lease in ms, 4 how many deliveries of waiting events to
--   create first (approximately), 5 maximum number of open deliveries of an account, 6 shares as JSON, or "" for none:
--   [slots of an account, those of its slow endpoints, [[account, slots that it holds, those of its slow endpoints], ...],
--    [[slow endpoint, its slots], ...], slots for slow endpoints of all accounts]
-- Returns: the time in ms, next_due without the queues that were passed over for lack of a share, the number of these, the
--   fence of these claims, the claims as JSON, and their bodies in the same order. A claim: [delivery, account, endpoint, event,
--   type, number of the attempt, retries used, 1 for manual, requester, 1 for a single attempt, due at ms, slots of the endpoint,
--   1 for a slow one]
local TAKE_BACK_MAX, DRAIN_MAX = 128, 200
-- Number of queues that are read in one step, and at most in one call.
local LOOK_STEP, LOOK_MAX = 64, 1024

local max, lease_us = tonumber(ARGV[2]), tonumber(ARGV[3]) * 1000
local shares = ARGV[6] ~= '' and cjson.decode(ARGV[6])
local account_max, slow_max, slow_room = max, max, max
-- Account -> slots that it holds, and those of its slow endpoints; endpoint that the worker knows as slow -> its slots.
local held_by, slow_held_by, slots_of = {}, {}, {}
if shares then
  account_max, slow_max, slow_room = shares[1], shares[2], shares[5]
  for _, each in ipairs(shares[3]) do held_by[each[1]], slow_held_by[each[1]] = each[2], each[3] end
  for _, each in ipairs(shares[4]) do slots_of[each[1]] = each[2] end
end
-- The end of the lease is the fencing token: no two claims of a delivery end in the same microsecond.
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

local claimed, slots_by, slow_by = {}, {}, {}

-- Whether the worker knows the endpoint as slow, or it has no success since its last failure or its creation.
local function is_slow(account, endpoint)
  if slots_of[endpoint] then return true end
  local health = redis.call('HGET', STEM .. 'health:' .. account, endpoint)
  return not health or string.match(health, '^0,') ~= nil or string.match(health, '^%d+,%d+,%d+,0,') == nil
end

-- Number of the worker's slots that an endpoint of the account may still take.
local function share_of(account, slow)
  local share = account_max - (held_by[account] or 0)
  return slow and math.min(share, slow_max - (slow_held_by[account] or 0), slow_room) or share
end

local function serve(queue, slow)
  slow_by[queue.endpoint] = slow and 1 or 0
  slots_by[queue.endpoint] = queue.cap
  -- With the smaller cap, an endpoint without a free slot is not in TURNS until an attempt ends.
  queue.cap = math.min(queue.cap, slots_of[queue.endpoint] or queue.cap)
  local room = math.min(queue.cap - queue.in_flight, max - #claimed, share_of(queue.account, slow))
  if room <= 0 then return end
  local ids = redis.call('ZRANGEBYSCORE', queue.key, '-inf', clock_us, 'LIMIT', 0, room)
  for _, id in ipairs(ids) do
    claimed[#claimed + 1] = id
    later('ZREM', queue.key, id)
    later('ZADD', CLAIMS, fence, id)
  end
  queue.in_flight = queue.in_flight + #ids
  queue.is_served = true
  if not shares then return end
  held_by[queue.account] = (held_by[queue.account] or 0) + #ids
  if not slow then return end
  slow_held_by[queue.account] = (slow_held_by[queue.account] or 0) + #ids
  slow_room = slow_room - #ids
end

local passed, passed_count = {}, 0

-- Claims from a queue or drains it. Skips a queue whose account or slow endpoint may take no more slots.
local function visit(name)
  local account, endpoint = string.match(name, '^([^:]*):(.*)$')
  local has_share = share_of(account, false) > 0
  local slow = has_share and is_slow(account, endpoint)
  if not has_share or share_of(account, slow) <= 0 then
    passed[name], passed_count = true, passed_count + 1
    return
  end
  local queue = queue_of(account, endpoint)
  if queue.status == 'enabled' then
    serve(queue, slow)
  elseif drained < DRAIN_MAX then
    drain(queue)
  end
end

local function bodies_of(heads)
  local bodies, shared, places = redis.call('HMGET', BODIES, unpack(claimed)), {}, {}
  for i, head in ipairs(heads) do
    if not bodies[i] then shared[#shared + 1], places[#places + 1] = head[EVENT], i end
  end
  if #shared > 0 then
    for n, body in ipairs(redis.call('HMGET', BODIES, unpack(shared))) do bodies[places[n]] = body end
  end
  return bodies
end

local function answer()
  local due = next_due(passed, passed_count)
  if #claimed == 0 then return { now, due, passed_count, fence, '[]' } end
  local records = redis.call('HMGET', DELIVERIES, unpack(claimed))
  local list, heads = {}, {}
  for i, id in ipairs(claimed) do
    local head = head_of(records[i])
    heads[i] = head
    list[i] = {
      id, head[ACCOUNT], head[ENDPOINT], head[EVENT], head[TYPE], head[ATTEMPTS] + 1, head[RETRIES], head[IS_MANUAL],
      head[BY], head[IS_SINGLE], math.floor(head[DUE_US] / 1000), slots_by[head[ENDPOINT]],
      slow_by[head[ENDPOINT]],
    }
  end
  return { now, due, passed_count, fence, cjson.encode(list), unpack(bodies_of(heads)) }
end

take_back()
fan_out(tonumber(ARGV[4]), tonumber(ARGV[5]))
for from = 0, LOOK_MAX - 1, LOOK_STEP do
  local names = redis.call('ZRANGEBYSCORE', TURNS, '-inf', clock_us, 'LIMIT', from, LOOK_STEP)
  for _, name in ipairs(names) do
    if #claimed < max then visit(name) end
  end
  if #claimed >= max or #names < LOOK_STEP then break end
end
write_deliveries()
return answer()
