-- Extends the leases of running requests of one shard and records their progress. Requests that are not live are
-- skipped.
-- KEYS: 1 format, 2 live requests, 3 leases, then sets of running requests, which items reference by index in KEYS
-- ARGV: 1 milliseconds to add to the time, 2 lease in ms, 3 items as JSON:
--   [request, prompt tokens, completion tokens, [set, ...]]
-- Returns: the time in ms
local RUNNING_SPARE_MS = 60000
local PROMPT_AT, COMPLETION_AT = 9, 10

local lease_ms, items = tonumber(ARGV[2]), cjson.decode(ARGV[3])
local ids = ids_of(items)
local live = redis.call('HMGET', KEYS[2], unpack(ids))

begin_write()
for i, item in ipairs(items) do
  if live[i] then
    local record = cmsgpack.unpack(live[i])
    record[PROMPT_AT], record[COMPLETION_AT] = item[2], item[3]
    redis.call('HSET', KEYS[2], item[1], cmsgpack.pack(record))
    redis.call('ZADD', KEYS[3], now + lease_ms, item[1])
    for _, set in ipairs(item[4]) do
      -- Adds the request again if its entry in the set had expired, because a running request counts.
      redis.call('ZADD', KEYS[set], now + lease_ms, item[1])
      redis.call('PEXPIRE', KEYS[set], lease_ms + RUNNING_SPARE_MS)
    end
  end
end
return { now }
