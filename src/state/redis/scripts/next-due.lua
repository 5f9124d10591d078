-- Reads when the next delivery of a shard is due.
-- KEYS: 1 format
-- ARGV: 1 milliseconds to add to the time
-- Returns: the time in ms, next_due
return { now, next_due() }
