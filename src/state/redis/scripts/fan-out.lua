-- Creates deliveries of waiting events of one shard.
-- KEYS: 1 format
-- ARGV: 1 milliseconds to add to the time, 2 approximate number of deliveries, 3 maximum number of open deliveries
--   of an account
-- Returns: the time in ms, next_due, 1 when more events wait, else 0
fan_out(tonumber(ARGV[2]), tonumber(ARGV[3]))
return { now, next_due(), redis.call('ZCARD', EVENT_TURNS) > 0 and 1 or 0 }
