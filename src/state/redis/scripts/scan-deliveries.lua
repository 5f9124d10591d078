-- Filters a bounded number of deliveries of a shard, newest first. A delivery that changes its state between two pages
-- is found exactly once, because its position does not change.
-- KEYS: 1 format
-- ARGV: 1 milliseconds to add to the time, 2 most creation in µs as a bound of a zset, 3 least in the same form, 4 maximum to
--   examine, 5 maximum to find, 6 states as letters, 7 account, 8 endpoint, 9 replay; in 7 to 9 "" means any; then types
--   states: "p" pending, "a" attempt in progress, "r" awaits a retry, "d" delivered, "f" permanently failed
-- Returns: the time in ms, the creation of the last one examined or "" when there are no more, then of each
--   found: delivery, creation in µs
local UNDER_WAY = 'a'
local look, most = tonumber(ARGV[4]), tonumber(ARGV[5])
local states, account, endpoint, replay = ARGV[6], ARGV[7], ARGV[8], ARGV[9]

local parts = {}

local function add_parts(which)
  for type_at = 10, #ARGV do
    local key = list_of(which, ARGV[type_at], endpoint ~= '' and endpoint)
    local found = redis.call('ZREVRANGEBYSCORE', key, ARGV[2], ARGV[3], 'WITHSCORES', 'LIMIT', 0, look)
    if #found > 0 then parts[#parts + 1] = { at = 1, pairs = found } end
  end
end

if string.find(states, '[par]') then add_parts(OPEN) end
if string.find(states, DELIVERED) then add_parts(DELIVERED) end
if string.find(states, FAILED) then add_parts(FAILED) end

-- Takes the newest delivery of all parts, with its creation time; nil when there is none.
local function take()
  local newest, newest_us
  for _, part in ipairs(parts) do
    local us = tonumber(part.pairs[part.at + 1])
    if us and (not newest or us > newest_us) then newest, newest_us = part, us end
  end
  if not newest then return nil end
  newest.at = newest.at + 2
  return newest.pairs[newest.at - 2], newest.pairs[newest.at - 1]
end

local ids, places = {}, {}
while #ids < look do
  local id, us = take()
  if not id then break end
  ids[#ids + 1], places[#places + 1] = id, us
end
if #ids == 0 then return { now, '' } end

local records, claims = redis.call('HMGET', DELIVERIES, unpack(ids)), redis.call('ZMSCORE', CLAIMS, unpack(ids))

local function is_wanted(i)
  local head = head_of(records[i])
  return (account == '' or head[ACCOUNT] == account)
    and (replay == '' or head[REPLAY] == replay)
    and string.find(states, claims[i] and UNDER_WAY or head[STATE], 1, true)
end

local found, looked = { now, '' }, 0
for i = 1, #ids do
  looked = i
  if is_wanted(i) then
    found[#found + 1], found[#found + 2] = ids[i], places[i]
    if #found == 2 * most + 2 then break end
  end
end
if looked == look or looked < #ids then found[2] = places[looked] end
return found
