-- Inserts a session.
-- KEYS: 1 sessions (hash of id -> document), 2 index (hash of the token's digest -> id)
-- ARGV: 1 id, 2 digest of the token, 3 document, 4 most sessions, 5 channel, 6 message
-- Returns: "done", "taken" for an id or digest that is there, "full"
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 or redis.call('HEXISTS', KEYS[2], ARGV[2]) == 1 then return 'taken' end
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[4]) then return 'full' end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('HSET', KEYS[2], ARGV[2], ARGV[1])
redis.call('PUBLISH', ARGV[5], ARGV[6])
return 'done'
