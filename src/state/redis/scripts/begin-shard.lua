-- Notes the format of a shard before anything else is written to it.
-- KEYS: 1 format
-- ARGV: 1 milliseconds to add to the time
-- Returns: the time in ms
begin_write()
return { now }
