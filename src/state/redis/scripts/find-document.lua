-- Finds a document by the digest of its secret.
-- KEYS: 1 index (hash of digest -> id), 2 collection (hash of id -> document)
-- ARGV: 1 digest
-- Returns: the document, or nil
local id = redis.call('HGET', KEYS[1], ARGV[1])
return id and redis.call('HGET', KEYS[2], id)
