-- Reads usage rows or sums as they are stored.
-- KEYS: 1 format, then hashes
-- ARGV: 1 milliseconds to add to the time
-- Returns: the time in ms, then for each hash: field, int64 as a decimal string, ...
local rows = { now }
for i = 2, #KEYS do rows[i] = redis.call('HGETALL', KEYS[i]) end
return rows
