-- One step through API keys, newest first. It prefilters by text; the caller filters exactly.
-- KEYS: 1 positions (zset, equal scores), 2 keys (hash of id -> document)
-- ARGV: 1 where to begin: "+" or "(" and the last position of the previous step, 2 maximum of keys to examine, 3 text in
--   the searchable fields, A to Z as a to z, or "", 4 text anywhere or "", 5 "there" or "absent": whether text 4 must be there
-- Returns: the position of the last key examined or "" when no other follows it, then documents
local look, wanted, sign, is_there = tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5] == 'there'
local places = redis.call('ZREVRANGEBYLEX', KEYS[1], ARGV[1], '-', 'LIMIT', 0, look + 1)
local answer = { '' }
if #places > look then
  places[#places] = nil
  answer[1] = places[look]
end

local function has_wanted(document)
  -- A user's text cannot contain `,"scope":`, because JSON escapes its quotation marks with a backslash.
  local searched = string.sub(document, 1, string.find(document, ',"scope":', 1, true) or -1)
  return string.find(string.lower(searched), wanted, 1, true)
end

local ids = {}
-- A position is 16 digits, a colon and the id.
for i, place in ipairs(places) do ids[i] = string.sub(place, 18) end
local documents = #ids > 0 and redis.call('HMGET', KEYS[2], unpack(ids)) or {}
for _, document in ipairs(documents) do
  local has_sign = sign == '' or (string.find(document, sign, 1, true) ~= nil) == is_there
  if has_sign and (wanted == '' or has_wanted(document)) then answer[#answer + 1] = document end
end
return answer
