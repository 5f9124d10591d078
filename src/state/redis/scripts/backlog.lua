-- Counts open and due deliveries of a bounded number of endpoints of a shard.
-- KEYS: 1 format
-- ARGV: 1 milliseconds to add to the time, 2 endpoints to skip, 3 maximum of endpoints
-- Returns: the time in ms, "more" or "last", then for each endpoint: account and endpoint joined by a colon, open
--   deliveries, due and unclaimed ones, when the oldest of these was due in ms or 0
local from, most = tonumber(ARGV[2]), tonumber(ARGV[3])
local names = redis.call('ZRANGE', TURNS, from, from + most - 1)
local found = { now, #names == most and 'more' or 'last' }

local function count(name)
  local queue = STEM .. 'q:' .. name
  local open = redis.call('ZCARD', queue) + tonumber(redis.call('HGET', IN_FLIGHT, name) or 0)
  local first_us = tonumber(redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')[2] or math.huge)
  local is_due = first_us <= clock_us
  local due = is_due and redis.call('ZCOUNT', queue, '-inf', clock_us) or 0
  found[#found + 1] = { name, open, due, is_due and math.floor(first_us / 1000) or 0 }
end

for _, name in ipairs(names) do count(name) end
-- Endpoints without a free slot are not in TURNS. There are few, because workers are attempting their deliveries.
if from == 0 then
  for _, name in ipairs(redis.call('HKEYS', IN_FLIGHT)) do
    if not redis.call('ZSCORE', TURNS, name) then count(name) end
  end
end
return found
