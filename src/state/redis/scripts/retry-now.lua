-- Makes one delivery due now (manual retry).
-- KEYS: 1 format
-- ARGV: 1 milliseconds to add to the time, 2 account, 3 delivery, 4 requester, 5 "1" to restart the schedule of an ended one,
--   6 "1" to send a delivered one again
-- Returns: the time in ms, next_due, "queued", "in_flight", "delivered", "purged", "endpoint_disabled", "endpoint_deleted"
--   or "unknown"
local account, id, by, is_restart, is_again = ARGV[2], ARGV[3], ARGV[4], ARGV[5] == '1', ARGV[6] == '1'

local function retry()
  local record = redis.call('HGET', DELIVERIES, id)
  if not record then return 'unknown' end
  local head, attempts = head_of(record)
  if head[ACCOUNT] ~= account then return 'unknown' end
  if redis.call('ZSCORE', CLAIMS, id) then return 'in_flight' end
  if head[IS_PURGED] == 1 then return 'purged' end
  if head[STATE] == DELIVERED and not is_again then return 'delivered' end
  local queue = queue_of(account, head[ENDPOINT])
  if queue.status ~= 'enabled' then return 'endpoint_' .. queue.status end

  if KEPT[head[STATE]] then
    reopen_delivery(id, head, attempts, clock_us, by, is_restart)
  else
    -- A delivery that is due already keeps its position.
    head[DUE_US] = math.min(head[DUE_US], clock_us)
    -- The first attempt of a pending delivery counts as part of the schedule, not as a manual retry.
    if head[STATE] == AWAITING then head[IS_MANUAL], head[BY] = 1, by end
    later('ZADD', queue.key, head[DUE_US], id)
    later('HSET', DELIVERIES, id, cmsgpack.pack(head) .. attempts)
  end
  write_deliveries()
  return 'queued'
end

local outcome = retry()
return { now, next_due(), outcome }
