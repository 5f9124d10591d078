-- Writes or removes an endpoint and notifies all replicas. Deliveries to a disabled or removed endpoint end; enabling an
-- endpoint resets its health.
-- KEYS: 1 format
-- ARGV: 1 milliseconds to add to the time, 2 "insert", "replace" or "remove", 3 account, 4 endpoint, 5 document or "",
--   6 maximum of endpoints of the account, 7 channel, 8 message
--   document: <status>|<event,event>|<most in flight>|<version>|<json>
-- Returns: the time in ms, next_due, "done", "taken" for an existing id, "full", "unknown" for a missing id,
--   "changed" when the stored version is not the previous one
local verb, account, id, document = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local endpoints, healths = STEM .. 'ep:' .. account, STEM .. 'health:' .. account
local FORM = '^(%a+)|[^|]*|%d+|(%d+)|'

local function obstacle(kept)
  if verb == 'insert' then
    if kept then return 'taken' end
    return redis.call('HLEN', endpoints) >= tonumber(ARGV[6]) and 'full'
  end
  if not kept then return 'unknown' end
  if verb == 'remove' then return nil end
  local _, version = string.match(kept, FORM)
  local _, next_version = string.match(document, FORM)
  return tonumber(version) + 1 ~= tonumber(next_version) and 'changed'
end

local kept = redis.call('HGET', endpoints, id)
local outcome = obstacle(kept) or 'done'
if outcome == 'done' then
  begin_write()
  if verb == 'remove' then
    redis.call('HDEL', endpoints, id)
    redis.call('HDEL', healths, id)
  else
    redis.call('HSET', endpoints, id, document)
    if kept and string.match(kept, FORM) == 'disabled' and string.match(document, FORM) == 'enabled' then
      redis.call('HDEL', healths, id)
    end
  end
  queue_of(account, id)
  write_deliveries()
  redis.call('PUBLISH', ARGV[7], ARGV[8])
end
return { now, next_due(), outcome }
