-- Finds requests of one shard with an expired lease and renews their leases, so that no other process finds them.
-- KEYS: 1 format, 2 live requests, 3 leases
-- ARGV: 1 milliseconds to add to the time, 2 maximum to find, 3 new lease in ms
-- Returns: the time in ms, then for each: request, account, key or "", model, operation, admitted at ms, prompt tokens,
--   completion tokens
local ids = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, ARGV[2])
if #ids == 0 then return { now } end

begin_write()
local found = { now }
local live = redis.call('HMGET', KEYS[2], unpack(ids))
for i, id in ipairs(ids) do
  if live[i] then
    local record = cmsgpack.unpack(live[i])
    redis.call('ZADD', KEYS[3], now + ARGV[3], id)
    found[#found + 1] = { id, record[1], record[2], record[3], record[4], record[5], record[9], record[10] }
  else
    redis.call('ZREM', KEYS[3], id)
  end
end
return found
