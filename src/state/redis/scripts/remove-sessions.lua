-- Removes sessions with their entries in the index.
-- KEYS: 1 sessions (hash of id -> document), 2 index (hash of the token's digest -> id)
-- ARGV: 1 channel, then for each session: its id, the digest of its token, the message about it
-- Returns: the number of removed sessions
local removed = 0
for i = 2, #ARGV, 3 do
  if redis.call('HDEL', KEYS[1], ARGV[i]) == 1 then
    redis.call('HDEL', KEYS[2], ARGV[i + 1])
    redis.call('PUBLISH', ARGV[1], ARGV[i + 2])
    removed = removed + 1
  end
end
return removed
