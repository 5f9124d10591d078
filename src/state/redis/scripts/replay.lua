-- One step of a replay: goes through deliveries to an endpoint in order of creation and queues ended ones.
-- Deliveries that the same replay has queued before are counted and skipped.
-- KEYS: 1 format
-- ARGV: 1 milliseconds to add to the time, 2 account, 3 endpoint, 4 least creation in µs as a bound of a zset, 5 most in the
--   same form, 6 "all" to include delivered ones, 7 replay, 8 requester, 9 "1" to restart their schedules, 10 maximum to
--   examine, 11 ms until the first is due, 12 ms between one and the next, then all types of events
-- Returns: the time in ms, next_due, the number queued now; of those that this replay queued earlier the numbers waiting,
--   delivered and failed; then the creation in µs of the last one examined, or "" when there are no more
local account, endpoint, is_all, replay, by, is_restart = ARGV[2], ARGV[3], ARGV[6] == 'all', ARGV[7], ARGV[8], ARGV[9] == '1'
local look, first_us, spacing_us = tonumber(ARGV[10]), tonumber(ARGV[11]) * 1000, tonumber(ARGV[12]) * 1000

-- Pairs of delivery and creation, the oldest first, over all states.
local function candidates()
  local found = {}
  for which in pairs(LISTS) do
    for type_at = 13, #ARGV do
      local key = list_of(which, ARGV[type_at], endpoint)
      local part = redis.call('ZRANGEBYSCORE', key, ARGV[4], ARGV[5], 'WITHSCORES', 'LIMIT', 0, look)
      for i = 1, #part, 2 do found[#found + 1] = { part[i], part[i + 1] } end
    end
  end
  table.sort(found, function(a, b) return tonumber(a[2]) < tonumber(b[2]) end)
  return found
end

local counts = { queued = 0, waiting = 0, delivered = 0, failed = 0 }
local STANDING = { [PENDING] = 'waiting', [AWAITING] = 'waiting', [DELIVERED] = 'delivered', [FAILED] = 'failed' }

local function consider(id, record, is_enabled)
  local head, attempts = head_of(record)
  if head[ACCOUNT] ~= account or head[ENDPOINT] ~= endpoint then return end
  local state = head[STATE]
  if head[REPLAY] == replay then
    counts[STANDING[state]] = counts[STANDING[state]] + 1
    return
  end
  local is_wanted = state == FAILED or (is_all and state == DELIVERED)
  if not is_wanted or not is_enabled or head[IS_PURGED] == 1 then return end
  head[REPLAY] = replay
  reopen_delivery(id, head, attempts, now * 1000 + first_us + counts.queued * spacing_us, by, is_restart)
  counts.queued = counts.queued + 1
end

local found, ids = candidates(), {}
for i = 1, math.min(#found, look) do ids[i] = found[i][1] end
if #ids > 0 then
  local is_enabled = queue_of(account, endpoint).status == 'enabled'
  local records = redis.call('HMGET', DELIVERIES, unpack(ids))
  for i, id in ipairs(ids) do consider(id, records[i], is_enabled) end
  write_deliveries()
end
local last = #ids == look and found[#ids][2] or ''
return { now, next_due(), counts.queued, counts.waiting, counts.delivered, counts.failed, last }
