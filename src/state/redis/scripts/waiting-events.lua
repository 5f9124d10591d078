-- Counts the events of a shard whose deliveries are not created yet.
-- KEYS: 1 format
-- ARGV: 1 milliseconds to add to the time, 2 maximum of accounts to count
-- Returns: the time in ms, the number of events, the time of the oldest in ms or 0
local count, oldest_us = 0, nil
for _, account in ipairs(redis.call('ZRANGE', EVENT_TURNS, 0, ARGV[2] - 1)) do
  local key = STEM .. 'waiting:' .. account
  local first_us = tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
  count = count + redis.call('ZCARD', key)
  if first_us and (not oldest_us or first_us < oldest_us) then oldest_us = first_us end
end
return { now, count, oldest_us and math.floor(oldest_us / 1000) or 0 }
