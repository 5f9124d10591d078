-- Removes the oldest stored responses of a shard. The keys of an account are derived from KEYS[1], on the same slot.
-- KEYS: 1 accounts with responses (zset of account -> when its oldest was created in ms, or earlier)
-- ARGV: 1 time in ms before which responses are removed, 2 maximum of responses
-- Returns: how many were removed
local stem = string.match(KEYS[1], '^(.*)response_accounts$')
local before, max = '(' .. ARGV[1], tonumber(ARGV[2])
local left = max
for _, account in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', before, 'LIMIT', 0, max)) do
  local responses, times = stem .. 'responses:' .. account, stem .. 'response_times:' .. account
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', times, '-inf', before, 'LIMIT', 0, left)) do
    redis.call('ZREM', times, id)
    redis.call('HDEL', responses, id)
    left = left - 1
  end
  local oldest = redis.call('ZRANGE', times, 0, 0, 'WITHSCORES')
  if oldest[2] then
    redis.call('ZADD', KEYS[1], oldest[2], account)
  else
    redis.call('ZREM', KEYS[1], account)
  end
  if left <= 0 then break end
end
return max - left
