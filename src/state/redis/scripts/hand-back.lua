-- Releases claims of one shard that were not attempted; claims that another worker has taken are skipped.
-- KEYS: 1 format
-- ARGV: 1 milliseconds to add to the time, then for each: delivery, fence
-- Returns: the time in ms, next_due
local function hand_back(id, fence)
  local holder = redis.call('ZSCORE', CLAIMS, id)
  local record = redis.call('HGET', DELIVERIES, id)
  if not record then return end
  if holder == fence then
    put_back(id, record, '')
  elseif not holder then
    local head, attempts = head_of(record)
    if head[LOST] ~= fence then return end
    head[LOST] = ''
    later('HSET', DELIVERIES, id, cmsgpack.pack(head) .. attempts)
  end
  write_deliveries()
end

for i = 2, #ARGV, 2 do hand_back(ARGV[i], ARGV[i + 1]) end
return { now, next_due() }
