-- Lists accounts of one shard that have usage.
-- KEYS: 1 format, 2 accounts
-- ARGV: 1 milliseconds to add to the time, 2 retention of usage in ms, 3 maximum number to list
-- Returns: the time in ms, then names
local names = redis.call('ZRANGEBYSCORE', KEYS[2], now - ARGV[2], '+inf', 'LIMIT', 0, ARGV[3])
table.insert(names, 1, now)
return names
