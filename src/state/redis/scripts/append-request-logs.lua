-- Appends records to the request log and removes the oldest beyond its bound.
-- KEYS: 1 records (hash of id -> JSON), 2 contents (hash of id -> JSON), 3 members by time (zset), 4 members by number (zset),
--   5 number of the last record
-- ARGV: 1 how many records to keep, 2 how many to remove at most, then for each record: id, member, JSON, content or "".
--   A member begins with 17 characters of time, then the id up to a space.
-- Returns: how many records were removed
for i = 3, #ARGV, 4 do
  local id, member = ARGV[i], ARGV[i + 1]
  if redis.call('HSETNX', KEYS[1], id, ARGV[i + 2]) == 1 then
    redis.call('ZADD', KEYS[3], 0, member)
    redis.call('ZADD', KEYS[4], redis.call('INCR', KEYS[5]), member)
    if ARGV[i + 3] ~= '' then redis.call('HSET', KEYS[2], id, ARGV[i + 3]) end
  end
end

local surplus = math.min(redis.call('ZCARD', KEYS[4]) - tonumber(ARGV[1]), tonumber(ARGV[2]))
if surplus <= 0 then return 0 end
for _, member in ipairs(redis.call('ZRANGE', KEYS[4], 0, surplus - 1)) do
  local id = string.match(member, '^([^ ]+)', 18)
  redis.call('ZREM', KEYS[3], member)
  redis.call('ZREM', KEYS[4], member)
  redis.call('HDEL', KEYS[1], id)
  redis.call('HDEL', KEYS[2], id)
end
return surplus
