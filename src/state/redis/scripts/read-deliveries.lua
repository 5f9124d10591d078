-- Reads the oldest deliveries of an account.
-- KEYS: 1 format, 2 deliveries of the shard, 3 deliveries of the account
-- ARGV: 1 milliseconds to add to the time, 2 most to read
-- Returns: the time in ms, then in the order of their making: delivery, record
local found = { now }
local ids = redis.call('ZRANGE', KEYS[3], 0, ARGV[2] - 1)
for i = 1, #ids do
  local record = redis.call('HGET', KEYS[2], ids[i])
  if record then found[#found + 1], found[#found + 2] = ids[i], record end
end
return found
