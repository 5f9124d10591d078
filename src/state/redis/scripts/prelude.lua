-- Precedes every script: the store's time, the check of the stored format, exact sums of int64.
-- KEYS: 1 format of the shard
-- ARGV: 1 milliseconds to add to the server's time (0 except in tests)
-- Returns: an error when the shard is stored in a format that this version cannot read; defines FORMAT, now, clock_us,
--   begin_write, ids_of, unreserve, add, compare and sum_of
local FORMAT = 1

local time = redis.call('TIME')
local clock_us = time[1] * 1000000 + time[2] + ARGV[1] * 1000
local now = math.floor(clock_us / 1000)

-- Accepts this format and the one before it, so that replicas can be replaced one after the other.
local stored_format = redis.call('GET', KEYS[1])
if stored_format and tonumber(stored_format) ~= FORMAT and tonumber(stored_format) ~= FORMAT - 1 then
  return redis.error_reply('UISFORMAT The data is stored in format ' .. stored_format .. ', this version reads '
    .. (FORMAT - 1) .. ' and ' .. FORMAT .. '. Run the version that wrote it, or a later one.')
end

local function begin_write()
  if stored_format then return end
  redis.call('SET', KEYS[1], FORMAT)
  stored_format = FORMAT
end

local function ids_of(items)
  local ids = {}
  for i = 1, #items do ids[i] = items[i][1] end
  return ids
end

-- Subtracts the reservation of one request from a hash of reservations.
local function unreserve(key, tokens, cost)
  redis.call('HINCRBY', key, 'r', -1)
  -- `-x` would be "-0" for zero, which Redis does not accept as an integer.
  redis.call('HINCRBY', key, 't', 0 - tokens)
  redis.call('HINCRBY', key, 'n', 0 - cost)
end

-- Lua's numbers are doubles. int64 sums are decimal strings, split into two halves that a double can represent exactly.
-- Both operands are 0 or more, without leading zeros.
local HALF = 15

local function halves(decimal)
  if #decimal <= HALF then return 0, tonumber(decimal) end
  return tonumber(string.sub(decimal, 1, -HALF - 1)), tonumber(string.sub(decimal, -HALF))
end

local function add(a, b)
  local high_a, low_a = halves(a)
  local high_b, low_b = halves(b)
  local high, low = high_a + high_b, low_a + low_b
  if low >= 1e15 then high, low = high + 1, low - 1e15 end
  if high == 0 then return string.format('%.0f', low) end
  return string.format('%.0f%015.0f', high, low)
end

-- Compares two decimal strings. Returns a number with the sign of a - b.
local function compare(a, b)
  if #a ~= #b then return #a - #b end
  if a == b then return 0 end
  return a < b and -1 or 1
end

-- The usage in a period, as a decimal string; metric: 'r' requests, 't' tokens, 'n' nano-dollars.
local function sum_of(key, metric)
  if metric ~= 't' then return redis.call('HGET', key, metric) or '0' end
  local parts = redis.call('HMGET', key, 'p', 'c')
  return add(parts[1] or '0', parts[2] or '0')
end
