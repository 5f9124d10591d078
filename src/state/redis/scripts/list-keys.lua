-- One page of API keys, the newest first.
-- KEYS: 1 places (zset, equal scores), 2 keys (hash of id -> document)
-- ARGV: 1 where to begin: "+" or "(" and the place that the page before ended with, 2 most keys
-- Returns: documents
local documents = {}
for _, place in ipairs(redis.call('ZREVRANGEBYLEX', KEYS[1], ARGV[1], '-', 'LIMIT', 0, ARGV[2])) do
  -- A place is 16 digits, a colon and the id.
  documents[#documents + 1] = redis.call('HGET', KEYS[2], string.sub(place, 18))
end
return documents
