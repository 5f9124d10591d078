-- Reads a stored response and the earlier responses that it continues, the newest first.
-- KEYS: 1 responses of the account (hash of id -> record)
-- ARGV: 1 id, 2 maximum number of responses, 3 characters of records after which no further one is read
-- Returns: id and record of each in turn; a record is `<created at ms> <items> <id of the one before it or ""> <content>`
local found, id, left = {}, ARGV[1], tonumber(ARGV[3])
while id ~= '' and left > 0 and #found < 2 * tonumber(ARGV[2]) do
  local record = redis.call('HGET', KEYS[1], id)
  if not record then break end
  found[#found + 1] = id
  found[#found + 1] = record
  left = left - #record
  id = string.match(record, '^%d+ %d+ (%S*) ')
end
return found
