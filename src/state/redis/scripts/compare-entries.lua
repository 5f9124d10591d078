-- Compares entries of one key with the expected entries.
-- KEYS: 1 key
-- ARGV: 1 type: "hash", "zset", "set" or "string", then pairs: field or member and value, of a zset its score
-- Returns: how many are missing, how many have another value
local members = {}
for i = 2, #ARGV, 2 do members[#members + 1] = ARGV[i] end

local READS = {
  hash = function() return redis.call('HMGET', KEYS[1], unpack(members)) end,
  zset = function() return redis.call('ZMSCORE', KEYS[1], unpack(members)) end,
  string = function() return { redis.call('GET', KEYS[1]) } end,
  set = function()
    local is_member, found = {}, {}
    for _, member in ipairs(redis.call('SMEMBERS', KEYS[1])) do is_member[member] = true end
    for i, member in ipairs(members) do found[i] = is_member[member] and '' end
    return found
  end,
}

local found, missing, other = READS[ARGV[1]](), 0, 0
for i = 1, #members do
  local expected = ARGV[2 * i + 1]
  if not found[i] then
    missing = missing + 1
  elseif ARGV[1] == 'zset' and tonumber(found[i]) ~= tonumber(expected) or ARGV[1] ~= 'zset' and found[i] ~= expected then
    other = other + 1
  end
end
return { missing, other }
