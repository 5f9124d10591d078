-- Removes payload and attempts of deliveries of a shard that ended long ago, and later their records.
-- KEYS: 1 format
-- ARGV: 1 milliseconds to add to the time, 2 maximum of changes, 3 ms for which a delivered delivery is kept, 4 ms for which
--   a failed delivery is kept, 5 maximum number of delivered deliveries that keep their payload
-- Returns: the time in ms, how many were changed
local left = tonumber(ARGV[2])
local KEPT_MS = { [DELIVERED] = tonumber(ARGV[3]), [FAILED] = tonumber(ARGV[4]) }
local kept_max = tonumber(ARGV[5])
local BODY_HOLDERS = STEM .. 'body_holders'

local function records_of(ids)
  left = left - #ids
  return #ids > 0 and redis.call('HMGET', DELIVERIES, unpack(ids)) or {}
end

local function forget_purged()
  local ids = redis.call('ZRANGEBYSCORE', PURGED, '-inf', now, 'LIMIT', 0, left)
  local records = records_of(ids)
  for i, id in ipairs(ids) do
    local head = head_of(records[i])
    unlist_delivery(head[STATE], id, head)
    later('ZREM', PURGED, id)
    later('HDEL', DELIVERIES, id)
  end
end

-- A shared body is removed with the last of its deliveries.
local function remove_body(id, event)
  if redis.call('HDEL', BODIES, id) == 1 or redis.call('HEXISTS', BODY_HOLDERS, event) == 0 then return end
  if redis.call('HINCRBY', BODY_HOLDERS, event, -1) > 0 then return end
  redis.call('HDEL', BODY_HOLDERS, event)
  redis.call('HDEL', BODIES, event)
end

local function purge(state, ids)
  local records = records_of(ids)
  for i, id in ipairs(ids) do
    local head = head_of(records[i])
    head[IS_PURGED] = 1
    later('ZREM', KEPT[state], id)
    remove_body(id, head[EVENT])
    later('HSET', DELIVERIES, id, cmsgpack.pack(head))
    later('ZADD', PURGED, head[ENDED_AT] + 2 * KEPT_MS[state], id)
  end
end

local function old_of(state)
  return redis.call('ZRANGEBYSCORE', KEPT[state], '-inf', now - KEPT_MS[state], 'LIMIT', 0, left)
end

local function surplus_of(state)
  local surplus = redis.call('ZCARD', KEPT[state]) - kept_max
  return surplus > 0 and left > 0 and redis.call('ZRANGE', KEPT[state], 0, math.min(surplus, left) - 1) or {}
end

forget_purged()
purge(FAILED, old_of(FAILED))
purge(DELIVERED, old_of(DELIVERED))
write_deliveries()
purge(DELIVERED, surplus_of(DELIVERED))
write_deliveries()
return { now, tonumber(ARGV[2]) - left }
