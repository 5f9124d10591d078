-- Reverts admissions of one shard whose answers timed out: the process decided them by its local share of the limits and
-- will not settle them. No usage is added; charges on windows expire with the windows.
-- KEYS: 1 format, 2 live requests, 3 leases, then sets of running requests and reservations, which items reference by
--   index in KEYS
-- ARGV: 1 milliseconds to add to the time, 2 items as JSON: [request, { owner: [window, running, reserved or 0], ... }]
--   owner: <kind>:<id>
-- Returns: the time in ms
local items = cjson.decode(ARGV[2])
local ids = ids_of(items)
local live = redis.call('HMGET', KEYS[2], unpack(ids))

begin_write()
for i, item in ipairs(items) do
  if live[i] then
    local record = cmsgpack.unpack(live[i])
    local reserved_tokens, reserved_cost, owners, reserved = record[7], record[8], record[11], record[13]
    for _, owner in ipairs(owners) do
      if item[2][owner] then redis.call('ZREM', KEYS[item[2][owner][2]], item[1]) end
    end
    for _, owner in ipairs(reserved) do
      local keys = item[2][owner]
      if keys then unreserve(KEYS[keys[3]], reserved_tokens, reserved_cost) end
    end
    redis.call('HDEL', KEYS[2], item[1])
    redis.call('ZREM', KEYS[3], item[1])
  end
end
return { now }
