-- Reads deliveries of a shard.
-- KEYS: 1 format
-- ARGV: 1 milliseconds to add to the time, then deliveries
-- Returns: the time in ms, then for each that exists, as JSON:
--   [delivery, state, account, event, type, endpoint, created at ms, due at ms or 0, attempts made, reason or "", 1 for
--    purged, replay or "", and for each stored attempt: due at ms after it or 0, attempt as JSON]
--   state: "p" pending, "a" attempt in progress, "r" awaits a retry, "d" delivered, "f" permanently failed
local UNDER_WAY = 'a'

local function details(id, record, is_claimed)
  local head, attempts = head_of(record)
  local list = {
    id, is_claimed and UNDER_WAY or head[STATE], head[ACCOUNT], head[EVENT], head[TYPE], head[ENDPOINT],
    math.floor(head[CREATED_US] / 1000), is_claimed and 0 or math.floor(head[DUE_US] / 1000), head[ATTEMPTS],
    head[REASON], head[IS_PURGED], head[REPLAY],
  }
  for _, attempt in ipairs({ cmsgpack.unpack(attempts) }) do
    list[#list + 1], list[#list + 2] = attempt[1], attempt[2]
  end
  return cjson.encode(list)
end

local ids = { unpack(ARGV, 2) }
local records = redis.call('HMGET', DELIVERIES, unpack(ids))
local claims = redis.call('ZMSCORE', CLAIMS, unpack(ids))
local found = { now }
for i, id in ipairs(ids) do
  if records[i] then found[#found + 1] = details(id, records[i], claims[i]) end
end
return found
