-- Notes that a replica runs, or that it goes, and counts those that run.
-- KEYS: 1 replicas (zset of name -> ms)
-- ARGV: 1 name, 2 ms after which one that was not heard of does not count, 0: this one goes
-- Returns: how many run
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local life = tonumber(ARGV[2])

if life == 0 then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  redis.call('ZADD', KEYS[1], now, ARGV[1])
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - life)
  redis.call('PEXPIRE', KEYS[1], life)
end
return redis.call('ZCARD', KEYS[1])
