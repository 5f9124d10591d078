-- Decides up to 64 requests of one shard, one after the other: a request is charged on all of its limits and budgets if all
-- have room, else on none. A repeated request gets its first answer.
-- KEYS: 1 format, 2 live requests, 3 leases, 4 .. n + 3 markers of settled requests in the order of the items, then
--   windows, sets of running requests, sums and reservations, which items reference by index in KEYS
-- ARGV: 1 milliseconds to add to the time, 2 the hour that the names of sums contain or -1, 3 items as JSON:
--   [request, account, key or "", model, operation, tokens, nano-dollars, prompt tokens, lease in ms,
--    [[owner, window, running or 0, requests or -1, tokens or -1, concurrency or -1], ...],
--    [[owner, sums, reserved, metric, limit as a decimal string, end of the period in ms], ...]]
--   owner: <kind>:<id>; metric: "r" requests, "t" tokens, "n" nano-dollars
-- Returns: the time in ms, then the answers as JSON, one for each item; only the time if the hour has ended, and then
--   nothing was changed. An answer begins with two dimensions, requests and tokens: index of the tightest scope or 0,
--   remaining, ms until full. It continues with
--   "admitted"
--   "ended"
--   "requests" | "tokens" | "concurrency", index of the scope, used, ms to wait or -1 for never
--   "budget", index of the budget, used and reserved as a decimal string
local CONCURRENCY_WAIT_MS = 1000
-- Longer than a lease, so that a set outlives its members.
local RUNNING_SPARE_MS = 60000
-- Longer than any request, so that the reservation of a running request does not expire.
local RESERVED_LIFE_MS = 86400000
local HOUR_MS = 3600000

local hour, items = tonumber(ARGV[2]), cjson.decode(ARGV[3])
if hour >= 0 and hour ~= math.floor(now / HOUR_MS) then return { now } end

local ids = ids_of(items)
local ended = redis.call('MGET', unpack(KEYS, 4, #items + 3))
local live = redis.call('HMGET', KEYS[2], unpack(ids))
local running_counts = {}

local function running_count(key)
  if not running_counts[key] then
    redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
    running_counts[key] = redis.call('ZCARD', key)
  end
  return running_counts[key]
end

local function tightest(scopes, what, limit_at)
  local place, least, reset = 0, 0, 0
  for i, scope in ipairs(scopes) do
    if scope[limit_at] >= 0 then
      local w = window(KEYS[scope[2]])
      local remaining = math.max(0, scope[limit_at] - w.sum[what])
      if place == 0 or remaining < least then place, least, reset = i, remaining, window_reset(w, what) end
    end
  end
  return place, least, reset
end

local function answer(scopes, ...)
  local place, remaining, reset = tightest(scopes, 'requests', 4)
  local token_place, token_remaining, token_reset = tightest(scopes, 'tokens', 5)
  return { place, remaining, reset, token_place, token_remaining, token_reset, ... }
end

-- The exceeded limit with the longest wait, as the rest of an answer, and that wait; nil when all have room.
local function refusing_limit(item)
  local longest, refusal = 0, nil
  local function consider(what, place, used, wait)
    local sorted_wait = wait < 0 and math.huge or wait
    if sorted_wait > longest then longest, refusal = sorted_wait, { what, place, used, wait } end
  end
  for place, scope in ipairs(item[10]) do
    local w = window(KEYS[scope[2]])
    if scope[4] >= 0 then consider('requests', place, w.sum.requests, window_wait(w, 'requests', 1, scope[4])) end
    if scope[5] >= 0 then consider('tokens', place, w.sum.tokens, window_wait(w, 'tokens', item[6], scope[5])) end
    if scope[6] >= 0 and running_count(KEYS[scope[3]]) >= scope[6] then
      consider('concurrency', place, running_count(KEYS[scope[3]]), CONCURRENCY_WAIT_MS)
    end
  end
  return refusal, longest
end

-- The exceeded budget that resets last, as the rest of an answer; nil when all have room.
local function refusing_budget(item)
  if #item[11] == 0 then return nil end
  local asked = { r = '1', t = string.format('%.0f', item[6]), n = string.format('%.0f', item[7]) }
  local latest, refusal = 0, nil
  for place, budget in ipairs(item[11]) do
    local metric, resets_at = budget[4], budget[6]
    local reserved = redis.call('HGET', KEYS[budget[3]], metric) or '0'
    local used = add(sum_of(KEYS[budget[2]], metric), reserved)
    if resets_at > latest and compare(add(used, asked[metric]), budget[5]) > 0 then
      latest, refusal = resets_at, { 'budget', place, used }
    end
  end
  return refusal
end

-- The refusal to report: a limit that the request can never meet, else an exceeded budget, else the limit with the longest
-- wait.
local function refusal_of(item)
  local limit, wait = refusing_limit(item)
  if wait == math.huge then return limit end
  return refusing_budget(item) or limit
end

-- Charges all scopes. Returns the owners of the scopes, and the owners whose tokens were charged.
local function charge_scopes(item, lease_ends)
  local owners, charged = {}, {}
  for _, scope in ipairs(item[10]) do
    local tokens = scope[5] >= 0 and item[6] or 0
    if scope[4] >= 0 or scope[5] >= 0 then
      window_add(window(KEYS[scope[2]]), scope[4] >= 0 and 1 or 0, tokens)
    end
    owners[#owners + 1] = scope[1]
    if scope[5] >= 0 then charged[#charged + 1] = scope[1] end
    if scope[6] >= 0 then
      local key = KEYS[scope[3]]
      running_counts[key] = running_count(key) + 1
      redis.call('ZADD', key, lease_ends, item[1])
      redis.call('PEXPIRE', key, item[9] + RUNNING_SPARE_MS)
    end
  end
  return owners, charged
end

-- Reserves once for each owner, however many budgets it has. Returns the owners with a reservation.
local function reserve_budgets(item)
  local reserved, is_reserved = {}, {}
  for _, budget in ipairs(item[11]) do
    if not is_reserved[budget[1]] then
      is_reserved[budget[1]] = true
      reserved[#reserved + 1] = budget[1]
      redis.call('HINCRBY', KEYS[budget[3]], 'r', 1)
      redis.call('HINCRBY', KEYS[budget[3]], 't', item[6])
      redis.call('HINCRBY', KEYS[budget[3]], 'n', item[7])
      redis.call('PEXPIRE', KEYS[budget[3]], RESERVED_LIFE_MS)
    end
  end
  return reserved
end

local records, leases = {}, {}
local admitted_now = {}

local function admit(item)
  local id, lease_ends = item[1], now + item[9]
  local owners, charged = charge_scopes(item, lease_ends)
  local reserved = reserve_budgets(item)
  local admitted = answer(item[10], 'admitted')
  admitted_now[id] = admitted
  records[#records + 1], records[#records + 2] = id, cmsgpack.pack({
    item[2], item[3], item[4], item[5], now, bucket_now, item[6], item[7], item[8], 0,
    owners, charged, reserved, admitted,
  })
  leases[#leases + 1], leases[#leases + 2] = lease_ends, id
  return admitted
end

local function decide(i, item)
  if live[i] then return cmsgpack.unpack(live[i])[14] end
  if admitted_now[item[1]] then return admitted_now[item[1]] end
  if ended[i] then return { 0, 0, 0, 0, 0, 0, 'ended' } end
  local refusal = refusal_of(item)
  if refusal then return answer(item[10], unpack(refusal)) end
  return admit(item)
end

begin_write()
local answers = {}
for i, item in ipairs(items) do answers[i] = decide(i, item) end
if #records > 0 then
  redis.call('HSET', KEYS[2], unpack(records))
  redis.call('ZADD', KEYS[3], unpack(leases))
end
write_windows()
return { now, cjson.encode(answers) }
