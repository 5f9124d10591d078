-- Inserts an API key and its list entries: unconditionally, only as the first key, or as the successor of another.
-- KEYS: 1 keys (hash of id -> document), 2 index (hash of digest -> id), 3 positions of all keys (zset, equal scores),
--   4 positions of the account's keys (the same), 5 accounts that have keys (set)
-- ARGV: 1 id, 2 digest of the secret, 3 document, 4 position, 5 account, 6 "first" to insert only if no key exists,
--   7 maximum of keys, 8 channel, 9 message, 10 id of the predecessor or "", 11 its document as it was read, 12 its new
--   document, 13 message about it
-- Returns: "done", "taken" for an existing id or digest, "full", "refused" when a key exists or the predecessor has
--   changed
local id, digest, predecessor = ARGV[1], ARGV[2], ARGV[10]
if ARGV[6] == 'first' and redis.call('HLEN', KEYS[1]) > 0 then return 'refused' end
if predecessor ~= '' and redis.call('HGET', KEYS[1], predecessor) ~= ARGV[11] then return 'refused' end
if redis.call('HEXISTS', KEYS[1], id) == 1 or redis.call('HEXISTS', KEYS[2], digest) == 1 then return 'taken' end
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[7]) then return 'full' end

redis.call('HSET', KEYS[1], id, ARGV[3])
redis.call('HSET', KEYS[2], digest, id)
redis.call('ZADD', KEYS[3], 0, ARGV[4])
redis.call('ZADD', KEYS[4], 0, ARGV[4])
redis.call('SADD', KEYS[5], ARGV[5])
redis.call('PUBLISH', ARGV[8], ARGV[9])
if predecessor ~= '' then
  redis.call('HSET', KEYS[1], predecessor, ARGV[12])
  redis.call('PUBLISH', ARGV[8], ARGV[13])
end
return 'done'
