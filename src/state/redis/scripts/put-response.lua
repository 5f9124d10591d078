-- Stores a response and removes the oldest of its account beyond the bound.
-- KEYS: 1 responses of the account (hash of id -> record), 2 their times (zset), 3 accounts with responses (zset)
-- ARGV: 1 account, 2 id, 3 created at in ms, 4 record, 5 how many responses the account keeps
-- Returns: 1, or 0 when the id exists
if redis.call('HSETNX', KEYS[1], ARGV[2], ARGV[4]) == 0 then return 0 end
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[2])

local surplus = redis.call('ZCARD', KEYS[2]) - tonumber(ARGV[5])
for _, id in ipairs(surplus > 0 and redis.call('ZRANGE', KEYS[2], 0, surplus - 1) or {}) do
  redis.call('ZREM', KEYS[2], id)
  redis.call('HDEL', KEYS[1], id)
end
local oldest = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if oldest[2] then redis.call('ZADD', KEYS[3], oldest[2], ARGV[1]) end
return 1
