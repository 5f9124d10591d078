-- Reads charges and running requests of windows of an account.
-- KEYS: 1 format, 2 live requests, 3 leases, 4 .. windows
-- ARGV: 1 milliseconds to add to the time, 2 account, 3 .. owner of each window: <kind>:<id>
-- Returns: the time in ms, then for each window: requests, tokens, running requests
local uses, use_of = { now }, {}
for i = 4, #KEYS do
  local w = window(KEYS[i])
  local use = { w.sum.requests, w.sum.tokens, 0 }
  uses[i - 2], use_of[ARGV[i - 1]] = use, use
end

local ids = redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. string.format('%.0f', now), '+inf')
for _, id in ipairs(ids) do
  local packed = redis.call('HGET', KEYS[2], id)
  local record = packed and cmsgpack.unpack(packed) or {}
  if record[1] == ARGV[2] then
    for _, owner in ipairs(record[11]) do
      if use_of[owner] then use_of[owner][3] = use_of[owner][3] + 1 end
    end
  end
end
return uses
