-- Records that a replica runs or stops, counts the running replicas and notifies them when the number changes.
-- KEYS: 1 replicas (zset of name -> ms)
-- ARGV: 1 name, 2 ms after which a replica without heartbeat no longer counts, 0: this one stops, 3 channel, 4 message
--   to
--       publish when the number changes
-- Returns: the number of running replicas
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local life = tonumber(ARGV[2])
local changed

if life == 0 then
  changed = redis.call('ZREM', KEYS[1], ARGV[1])
else
  changed = redis.call('ZADD', KEYS[1], now, ARGV[1])
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - life)
  redis.call('PEXPIRE', KEYS[1], life)
end
if changed == 1 then redis.call('PUBLISH', ARGV[3], ARGV[4]) end
return redis.call('ZCARD', KEYS[1])
