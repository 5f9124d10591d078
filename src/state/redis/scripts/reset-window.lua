-- Empties the rate limit window of one owner. Later refunds of requests that run now do not reduce later charges.
-- KEYS: 1 format, 2 window
-- ARGV: 1 milliseconds to add to the time
-- Returns: the time in ms
begin_write()
empty_window(KEYS[2])
write_windows()
return { now }
