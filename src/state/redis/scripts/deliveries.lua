-- Precedes scripts that use deliveries, after the prelude. Writes are collected and sent in few commands by
-- write_deliveries, which every script with changes calls before it returns.
-- KEYS: 1 format of the shard; all other keys have the same hash tag and are derived from it, as key-space.ts lists them
-- ARGV: none
-- Returns: nothing; defines the keys and fields below, list_of, later, list_delivery, unlist_delivery, head_of,
--   queue_of, count_open, open_of, finish_delivery, reopen_delivery, put_back, write_deliveries and next_due
local STEM = string.sub(KEYS[1], 1, -#'format' - 1)
local DELIVERIES, BODIES, OPEN_COUNTS = STEM .. 'deliveries', STEM .. 'bodies', STEM .. 'open_counts'
local TURNS, CLAIMS, IN_FLIGHT = STEM .. 'turns', STEM .. 'claims', STEM .. 'in_flight'
local PENDING, AWAITING, DELIVERED, FAILED = 'p', 'r', 'd', 'f'
local OPEN = 'o'
-- LISTS: OPEN or the state of ended deliveries -> zsets by time of creation, see list_of.
-- KEPT: state of ended deliveries -> zset by time of their end, only those that have their payload.
local LISTS = { [OPEN] = STEM .. 'open:', [DELIVERED] = STEM .. 'delivered:', [FAILED] = STEM .. 'failed:' }
local KEPT = { [DELIVERED] = STEM .. 'kept:delivered', [FAILED] = STEM .. 'kept:failed' }
local PURGED = STEM .. 'purged'
-- Accounts with events that wait for their deliveries.
local EVENT_TURNS = STEM .. 'event_turns'
-- The time as text, formatted once: Redis would format a number again in each call.
local NOW = string.format('%.0f', now)

-- Indexes into the head of a record; attempts follow the head, each packed separately.
local STATE, ACCOUNT, EVENT, TYPE, ENDPOINT, CREATED_US, DUE_US, ATTEMPTS = 1, 2, 3, 4, 5, 6, 7, 8
local RETRIES, IS_MANUAL, BY, IS_SINGLE, REASON, ENDED_AT, REPLAY, IS_PURGED, LOST = 9, 10, 11, 12, 13, 14, 15, 16, 17

-- Decodes a record. Returns its head, and its attempts as they are stored.
local function head_of(text)
  local offset, head = cmsgpack.unpack_one(text)
  return head, offset == -1 and '' or string.sub(text, offset + 1)
end

-- The collected commands run in this order. A member that leaves a set and returns to it therefore needs two calls of
-- write_deliveries.
local COMMANDS = { 'ZREM', 'HDEL', 'HSET', 'ZADD' }
local collected = { ZREM = {}, HDEL = {}, HSET = {}, ZADD = {} }
-- Maximum number of arguments of one command: even, and well below the maximum in Lua.
local VALUES_MAX = 2000

-- Collects a command. ZREM and HDEL take a name, HSET and ZADD two values in the order of the command.
local function later(command, key, first, second)
  local of_key = collected[command][key]
  if not of_key then
    of_key = {}
    collected[command][key] = of_key
  end
  of_key[#of_key + 1] = first
  if second then of_key[#of_key + 1] = second end
end

-- The key of the list of open deliveries of a type, or of those that ended in this state; if `endpoint` is given, only those
-- to this endpoint.
local function list_of(which, event_type, endpoint)
  return LISTS[which] .. event_type .. (endpoint and ':' .. endpoint or '')
end

local function list_delivery(which, id, head)
  later('ZADD', list_of(which, head[TYPE]), head[CREATED_US], id)
  later('ZADD', list_of(which, head[TYPE], head[ENDPOINT]), head[CREATED_US], id)
end

local function unlist_delivery(which, id, head)
  later('ZREM', list_of(which, head[TYPE]), id)
  later('ZREM', list_of(which, head[TYPE], head[ENDPOINT]), id)
end

local queues = {}

-- The queue of an endpoint. Its `status` is enabled, disabled or deleted; `in_flight` may be changed.
local function queue_of(account, endpoint)
  local name = account .. ':' .. endpoint
  local queue = queues[name]
  if queue then return queue end
  local status, cap = 'deleted', 0
  local document = redis.call('HGET', STEM .. 'ep:' .. account, endpoint)
  if document then status, cap = string.match(document, '^(%a+)|[^|]*|(%d+)|') end
  local in_flight = tonumber(redis.call('HGET', IN_FLIGHT, name) or 0)
  queue = {
    name = name, key = STEM .. 'q:' .. name, account = account, endpoint = endpoint,
    status = status, cap = tonumber(cap), in_flight = in_flight, in_flight_before = in_flight,
  }
  queues[name] = queue
  return queue
end

-- The time from which the endpoint waits for its turn; nil if it does not. A served endpoint goes to the end of the line, so
-- that a long queue does not delay others. 0: the queue is to be emptied.
local function turn_of(queue)
  local first = tonumber(redis.call('ZRANGE', queue.key, 0, 0, 'WITHSCORES')[2])
  if not first then return nil end
  if queue.status ~= 'enabled' then return 0 end
  if queue.in_flight >= queue.cap then return nil end
  if first > clock_us then return first end
  local since = tonumber(redis.call('ZSCORE', TURNS, queue.name))
  if queue.is_served or not since then return clock_us end
  return math.min(since, clock_us)
end

local function write_queues()
  for name, queue in pairs(queues) do
    if queue.in_flight > 0 and queue.in_flight ~= queue.in_flight_before then
      redis.call('HSET', IN_FLIGHT, name, queue.in_flight)
    elseif queue.in_flight <= 0 and queue.in_flight_before > 0 then
      redis.call('HDEL', IN_FLIGHT, name)
    end
    local turn = turn_of(queue)
    if turn then redis.call('ZADD', TURNS, turn, name) else redis.call('ZREM', TURNS, name) end
  end
  queues = {}
end

local open_before, open_changes = {}, {}

local function count_open(account, by) open_changes[account] = (open_changes[account] or 0) + by end

-- Open deliveries of an account, including those of this call.
local function open_of(account)
  if not open_before[account] then open_before[account] = tonumber(redis.call('HGET', OPEN_COUNTS, account) or 0) end
  return open_before[account] + (open_changes[account] or 0)
end

local function write_open_counts()
  for account, by in pairs(open_changes) do
    if by ~= 0 and redis.call('HINCRBY', OPEN_COUNTS, account, by) <= 0 then redis.call('HDEL', OPEN_COUNTS, account) end
  end
  open_before, open_changes = {}, {}
end

-- Ends an open delivery. The caller writes its record.
local function finish_delivery(id, head, state, reason)
  head[STATE], head[REASON], head[DUE_US], head[ENDED_AT], head[LOST] = state, reason, 0, now, ''
  unlist_delivery(OPEN, id, head)
  list_delivery(state, id, head)
  later('ZADD', KEPT[state], NOW, id)
  count_open(head[ACCOUNT], -1)
end

-- Queues an ended delivery again for a manual retry and writes its record; `attempts` as head_of gives them.
local function reopen_delivery(id, head, attempts, due_us, by, is_restart)
  local former = head[STATE]
  if is_restart then head[RETRIES] = 0 end
  head[STATE], head[REASON], head[DUE_US], head[ENDED_AT] = AWAITING, '', due_us, 0
  head[IS_MANUAL], head[BY], head[IS_SINGLE] = 1, by, is_restart and 0 or 1
  unlist_delivery(former, id, head)
  later('ZREM', KEPT[former], id)
  list_delivery(OPEN, id, head)
  later('ZADD', queue_of(head[ACCOUNT], head[ENDPOINT]).key, due_us, id)
  later('HSET', DELIVERIES, id, cmsgpack.pack(head) .. attempts)
  count_open(head[ACCOUNT], 1)
end

-- Releases a claim: the delivery is due as before. `lost` is the fence of an expired claim, whose result is still accepted
-- until another claim takes the delivery, or empty.
local function put_back(id, record, lost)
  local head, attempts = head_of(record)
  if head[LOST] ~= lost then
    head[LOST] = lost
    later('HSET', DELIVERIES, id, cmsgpack.pack(head) .. attempts)
  end
  local queue = queue_of(head[ACCOUNT], head[ENDPOINT])
  queue.in_flight = queue.in_flight - 1
  later('ZREM', CLAIMS, id)
  later('ZADD', queue.key, head[DUE_US], id)
end

-- Runs the collected commands. If there are none, it writes nothing, not even the format.
local function write_deliveries()
  for _, command in ipairs(COMMANDS) do
    for key, values in pairs(collected[command]) do
      begin_write()
      for from = 1, #values, VALUES_MAX do
        redis.call(command, key, unpack(values, from, math.min(from + VALUES_MAX - 1, #values)))
      end
    end
    collected[command] = {}
  end
  write_open_counts()
  write_queues()
end

-- The score of the first member that is not one of the `count` names in `passed`; nil for none.
local function first_of(key, passed, count)
  local found = redis.call('ZRANGE', key, 0, count or 0, 'WITHSCORES')
  for i = 1, #found, 2 do
    if not passed or not passed[found[i]] then return tonumber(found[i + 1]) end
  end
  return nil
end

-- The earliest time at which a delivery of the shard is due, an event waits or a lease ends, in ms as text, rounded up;
-- empty if none. If given, the `count` queues whose names are in `passed` are ignored.
local function next_due(passed, count)
  local first_us = math.huge
  local function consider(us) first_us = math.min(first_us, us or math.huge) end
  consider(first_of(TURNS, passed, count))
  consider(first_of(CLAIMS))
  consider(first_of(EVENT_TURNS))
  if first_us == math.huge then return '' end
  return string.format('%.0f', first_us <= clock_us and math.floor(first_us / 1000) or math.ceil(first_us / 1000))
end
