-- Charges a request that failed validation: one request and no tokens, once per request, even above a limit.
-- KEYS: 1 format, 2 live requests, 3 marker of the settled request, 4 marker of the refused request, 5 .. windows
-- ARGV: 1 milliseconds to add to the time, 2 request
-- Returns: the time in ms
-- The charge expires in all windows before the marker.
local MARKER_LIFE_MS = 70000

if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 1 or redis.call('EXISTS', KEYS[3]) == 1 then return { now } end
begin_write()
if not redis.call('SET', KEYS[4], 1, 'NX', 'PX', MARKER_LIFE_MS) then return { now } end
for i = 5, #KEYS do window_add(window(KEYS[i]), 1, 0) end
write_windows()
return { now }
