-- Writes or removes one document of a collection if the condition holds, and notifies all replicas.
-- KEYS: 1 collection (hash of id -> document), 2 for a new document with a secret: index (hash of digest -> id)
-- ARGV: 1 id, 2 condition: "absent", "present", "any" or "same", 3 for "same" the whole document as it was read,
--   4 new document or "" to remove it, 5 maximum number of documents in the collection, 6 channel, 7 message or "",
--   8 digest of the secret
-- Returns: "done", "full" when the collection is full, "refused" when the condition does not hold
local id, condition, text = ARGV[1], ARGV[2], ARGV[4]
local kept = redis.call('HGET', KEYS[1], id)

if condition == 'absent' and (kept or KEYS[2] and redis.call('HEXISTS', KEYS[2], ARGV[8]) == 1) then return 'refused' end
if condition == 'present' and not kept then return 'refused' end
if condition == 'same' and kept ~= ARGV[3] then return 'refused' end

if text == '' then
  if not kept then return 'refused' end
  redis.call('HDEL', KEYS[1], id)
else
  if not kept and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[5]) then return 'full' end
  redis.call('HSET', KEYS[1], id, text)
  if KEYS[2] then redis.call('HSET', KEYS[2], ARGV[8], id) end
end
if ARGV[7] ~= '' then redis.call('PUBLISH', ARGV[6], ARGV[7]) end
return 'done'
