-- Settles up to 64 requests of one shard, each only once: corrects its windows, releases its slots and reservations, adds its
-- usage, records reached values of thresholds, and writes each event with its endpoints, from which claims create deliveries.
-- KEYS: 1 format, 2 live requests, 3 leases, 4 accounts, 5 .. n + 4 markers of settled requests in the order of the
--   items, then keys that lines reference by index in KEYS
-- ARGV: 1 milliseconds to add to the time, 2 the hour that the names of sums contain or -1, 3 lines as JSON, 4
--   items as JSON, 5 maximum number of open deliveries of an account, 6 maximum of its events that wait for their deliveries.
--   A line is the owner and the time of usage: [account, field of its usage rows, start of the day in ms,
--    { owner: [window, running, reserved or 0], ... }, [[hour or day row, expires at], ...], [[sums, expires at], ...],
--    endpoints of the account, field of the same rows for one operation, lists of thresholds: [[[threshold, metric, sums,
--    [value as a decimal string, ...], events or 0], ...], ...]]
--   An item: [request, line, prompt tokens, completion tokens, cached tokens, nano-dollars, 1 for degraded,
--    [event, type, body] or only its type or 0, list of thresholds of its line or 0, { owner: as in the line, ... } of its
--    further owners or 0]
--   owner: <kind>:<id>; events: [event, type, prefix, suffix] for each value
-- Returns: the time in ms, then the answers as JSON, one for each item, or nothing more when the hour is over and nothing
--   was done; last next_due when events were written, else nothing. An answer:
--   "settled", threshold, ... for each reached value
--   "duplicate"
--   "wants_events" when it needs the text of an event: nothing was done for this item
--   "again" when the items before it created so many deliveries that other calls would wait too long: nothing was done
local MARKER_LIFE_MS = 7200000
local HOUR_MS = 3600000
local EXACT_MAX = 9007199254740991
-- Maximum number of deliveries that one call creates, which takes about 10 ms. At least one item is settled in each call.
local DELIVERIES_PER_CALL = 400
-- Equal to the retention of daily usage.
local ACCOUNT_LIFE_MS = 63158400000

local hour, lines, items = tonumber(ARGV[2]), cjson.decode(ARGV[3]), cjson.decode(ARGV[4])
if hour >= 0 and hour ~= math.floor(now / HOUR_MS) then return { now } end

local ids = ids_of(items)
local ended = redis.call('MGET', unpack(KEYS, 5, #items + 4))
local live = redis.call('HMGET', KEYS[2], unpack(ids))
local settled_now = {}

-- Usage of each line that is not written yet: requests of one line are added up as long as a double is exact, then once to each
-- int64 in the store.
local SUMS = { 'r', 'p', 'c', 'h', 'n' }

local function write_sums(key, expires_at, before, usage)
  local is_new = false
  for _, sum in ipairs(SUMS) do
    local by = usage[sum]
    if by > 0 and redis.call('HINCRBY', key, before .. sum, by) == by then is_new = true end
  end
  if is_new then redis.call('PEXPIREAT', key, expires_at) end
end

local function write_line(line)
  local usage = line.usage
  if not usage then return end
  line.usage = nil
  for _, row in ipairs(line[5]) do
    write_sums(KEYS[row[1]], row[2], line[2], usage)
    -- Sums by operation, in addition to the sums over all operations, which version 0.1 reads and writes exclusively.
    write_sums(KEYS[row[1]], row[2], line[8], usage)
  end
  for _, sums in ipairs(line[6]) do write_sums(KEYS[sums[1]], sums[2], '', usage) end
end

local function write_usage()
  for _, line in ipairs(lines) do write_line(line) end
end

local function add_usage(line, item)
  local usage = line.usage
  if usage and math.max(usage.p + item[3], usage.c + item[4], usage.h + item[5], usage.n + item[6]) > EXACT_MAX then
    write_line(line)
    usage = nil
  end
  if not usage then
    line.usage = { r = 1, p = item[3], c = item[4], h = item[5], n = item[6] }
    return
  end
  usage.r, usage.p, usage.c = usage.r + 1, usage.p + item[3], usage.c + item[4]
  usage.h, usage.n = usage.h + item[5], usage.n + item[6]
end

-- Records that the account has usage; runs once for each line of a call.
local function note_account(line)
  if line.is_noted then return end
  line.is_noted = true
  if redis.call('ZADD', KEYS[4], 'GT', line[3], line[1]) == 1 then
    redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now - ACCOUNT_LIFE_MS)
  end
end

local endpoints_of, receivers_of = {}, {}

-- The ids of enabled endpoints of an account that subscribe to a type of event.
local function receivers(key, event_type)
  local name = event_type .. key
  if receivers_of[name] then return receivers_of[name] end
  if not endpoints_of[key] then endpoints_of[key] = redis.call('HGETALL', key) end
  local endpoints, wanted = endpoints_of[key], {}
  for i = 1, #endpoints, 2 do
    local status, events = string.match(endpoints[i + 1], '^([^|]*)|([^|]*)|')
    if status == 'enabled' and string.find(',' .. events .. ',', ',' .. event_type .. ',', 1, true) then
      wanted[#wanted + 1] = endpoints[i]
    end
  end
  table.sort(wanted)
  receivers_of[name] = wanted
  return wanted
end

local open_max, waiting_max = tonumber(ARGV[5]), tonumber(ARGV[6])

-- Beyond the maximum of waiting events, the deliveries of the account's oldest one are created here.
local function deliver(line, event, event_type, body)
  local account, endpoints = line[1], receivers(KEYS[line[7]], event_type)
  if #endpoints == 0 then return end
  add_event(account, event, event_type, endpoints, body)
  if redis.call('ZCARD', waiting_of(account)) > waiting_max then deliver_oldest(account, 1, open_max) end
end

local function decimal(n) return string.format('%.0f', n) end

local function growth(item, metric)
  if metric == 'r' then return '1' end
  if metric == 'n' then return decimal(item[6]) end
  return add(decimal(item[3]), decimal(item[4]))
end

-- The sums that thresholds are compared with, by key and metric: read once in a call, then updated with each of its items.
local watched = {}

local function watched_sum(key, metric)
  local sums = watched[key] or {}
  watched[key] = sums
  if not sums[metric] then
    write_usage()
    sums[metric] = sum_of(key, metric)
  end
  return sums[metric]
end

local function add_watched(line, item)
  for _, each in ipairs(line[6]) do
    local sums = watched[KEYS[each[1]]]
    if sums then
      for metric, sum in pairs(sums) do sums[metric] = add(sum, growth(item, metric)) end
    end
  end
end

-- The values that a sum reaches for the first time with this item: list of { threshold, place of the value, sum }. The values
-- before `threshold.next` have been reported already.
local function reached(item, line)
  local found, sums = {}, {}
  for _, threshold in ipairs(line[9][item[9]]) do
    local key, metric, values = KEYS[threshold[3]], threshold[2], threshold[4]
    local name = metric .. threshold[3]
    if not sums[name] then sums[name] = add(watched_sum(key, metric), growth(item, metric)) end
    local place = threshold.next or 1
    while values[place] and compare(sums[name], values[place]) >= 0 do
      if redis.call('HEXISTS', key, 'm' .. threshold[1] .. ':' .. values[place]) == 0 then
        found[#found + 1] = { threshold, place, sums[name] }
      elseif place == (threshold.next or 1) then
        threshold.next = place + 1
      end
      place = place + 1
    end
  end
  return found
end

local function emit_crossed(line, found)
  local crossed = { 'settled' }
  for _, each in ipairs(found) do
    local threshold, place, sum = each[1], each[2], each[3]
    -- Two percentages of a small limit can be the same value, for which there is only one event.
    if redis.call('HSETNX', KEYS[threshold[3]], 'm' .. threshold[1] .. ':' .. threshold[4][place], 1) == 1 then
      local event = threshold[5][place]
      deliver(line, event[1], event[2], event[3] .. sum .. event[4])
      crossed[#crossed + 1] = threshold[1]
    end
  end
  return crossed
end

-- Key of a set of running requests -> requests of this call that ended and leave the set.
local no_longer_running = {}

-- Releases the charges of the admission. A degraded request was charged elsewhere; if it is live here, its admission timed
-- out, and its charges on windows expire.
local function release(item, line, record)
  local admitted_at, bucket, reserved_tokens, reserved_cost = record[5], record[6], record[7], record[8]
  local owners, charged, reserved = record[11], record[12], record[13]
  local function keys_of(owner)
    return line[4][owner] or (item[10] ~= 0 and item[10][owner]) or nil
  end

  local delta = item[3] + item[4] - reserved_tokens
  if delta ~= 0 and item[7] == 0 then
    for _, owner in ipairs(charged) do
      local keys = keys_of(owner)
      if keys then window_correct(window(KEYS[keys[1]]), admitted_at, bucket, delta) end
    end
  end
  for _, owner in ipairs(owners) do
    local keys = keys_of(owner)
    if keys then
      local key = KEYS[keys[2]]
      local gone = no_longer_running[key] or {}
      no_longer_running[key] = gone
      gone[#gone + 1] = item[1]
    end
  end
  for _, owner in ipairs(reserved) do
    local keys = keys_of(owner)
    if keys then unreserve(KEYS[keys[3]], reserved_tokens, reserved_cost) end
  end
end

local released = {}

local function settle(i, item)
  if settled_now[item[1]] or (ended[i] and not live[i]) then return { 'duplicate' } end
  local line, found = lines[item[2]], {}
  local event = item[8]
  if type(event) == 'string' then
    if #receivers(KEYS[line[7]], event) > 0 then return { 'wants_events' } end
    event = 0
  end
  if item[9] > 0 then
    found = reached(item, line)
    for _, each in ipairs(found) do
      if each[1][5] == 0 then return { 'wants_events' } end
    end
  end
  -- The marker is written first: if the memory of Redis is full, this write is rejected and nothing else was done.
  redis.call('SET', KEYS[i + 4], 1, 'PX', MARKER_LIFE_MS)
  settled_now[item[1]] = true
  if live[i] then
    release(item, line, cmsgpack.unpack(live[i]))
    released[#released + 1] = item[1]
  end
  add_usage(line, item)
  add_watched(line, item)
  note_account(line)
  local crossed = emit_crossed(line, found)
  if event ~= 0 then deliver(line, event[1], event[2], event[3]) end
  return crossed
end

begin_write()
local answers = {}
for i, item in ipairs(items) do
  answers[i] = deliveries_made < DELIVERIES_PER_CALL and settle(i, item) or { 'again' }
end
write_usage()
for key, gone in pairs(no_longer_running) do redis.call('ZREM', key, unpack(gone)) end
if #released > 0 then
  redis.call('HDEL', KEYS[2], unpack(released))
  redis.call('ZREM', KEYS[3], unpack(released))
end
write_windows()
if events_added == 0 then return { now, cjson.encode(answers) } end
write_deliveries()
return { now, cjson.encode(answers), next_due() }
