-- Ends attempts at up to 64 deliveries of one shard: the attempt, the new state and the health of the endpoint.
-- KEYS: 1 format
-- ARGV: 1 milliseconds to add to the time, 2 maximum number of stored attempts of a delivery, 3 items as JSON:
--   [delivery, fence, new state, ms until the retry or reason of the failure or 0, attempt as JSON]
--   state: "d" delivered, "r" awaits a retry, "f" permanently failed
-- Returns: the time in ms, next_due, and as JSON for each item 0 when the claim was lost, or the health of the
--   endpoint: "<last success in ms or 0>,<last failure in ms or 0>,<failing since in ms or 0>,<consecutive
--   failures>,<permanent failures>"
local attempts_kept, items = tonumber(ARGV[2]), cjson.decode(ARGV[3])
local ids = ids_of(items)
local fences = redis.call('ZMSCORE', CLAIMS, unpack(ids))
local records = redis.call('HMGET', DELIVERIES, unpack(ids))
local ended_now = {}

local function health_of(queue)
  if not queue.health then
    local kept = queue.status ~= 'deleted' and redis.call('HGET', STEM .. 'health:' .. queue.account, queue.endpoint)
    queue.health_text = kept or '0,0,0,0,0'
    queue.health = {}
    for number in string.gmatch(queue.health_text, '%d+') do queue.health[#queue.health + 1] = tonumber(number) end
  end
  return queue.health
end

-- Returns the health of the endpoint after this attempt, as text.
local function note_health(queue, state)
  local health = health_of(queue)
  if queue.status == 'deleted' then return queue.health_text end
  if state == DELIVERED then
    -- The usual case: several attempts of one call succeed, and the health is the same after each.
    if health[1] == now and health[4] == 0 then return queue.health_text end
    health[1], health[3], health[4], health[5] = now, 0, 0, 0
  else
    health[2], health[4] = now, health[4] + 1
    if health[3] == 0 then health[3] = now end
    if state == FAILED then health[5] = health[5] + 1 end
  end
  queue.has_news = true
  queue.health_text = string.format('%.0f,%.0f,%.0f,%.0f,%.0f', unpack(health))
  return queue.health_text
end

local function with_attempt(head, attempts, next_at, attempt)
  head[ATTEMPTS] = head[ATTEMPTS] + 1
  if head[ATTEMPTS] > attempts_kept then attempts = string.sub(attempts, cmsgpack.unpack_one(attempts) + 1) end
  return attempts .. cmsgpack.pack({ next_at, attempt })
end

local touched = {}

-- Whether the claim still holds the delivery, or its lease has expired but no other claim has taken the delivery.
local function is_held(i, item, head)
  if fences[i] then return fences[i] == item[2] end
  return head[LOST] == item[2] and not KEPT[head[STATE]]
end

local function finish(i, item)
  local id, state = item[1], item[3]
  if not records[i] or ended_now[id] then return 0 end
  local head, attempts = head_of(records[i])
  if not is_held(i, item, head) then return 0 end
  ended_now[id] = true
  local queue = queue_of(head[ACCOUNT], head[ENDPOINT])
  touched[queue] = true
  if fences[i] then
    queue.in_flight = queue.in_flight - 1
    later('ZREM', CLAIMS, id)
  else
    later('ZREM', queue.key, id)
  end
  local next_at = 0
  if state == AWAITING then
    next_at = now + item[4]
    head[STATE], head[DUE_US], head[RETRIES] = AWAITING, next_at * 1000, head[RETRIES] + 1
    later('ZADD', queue.key, head[DUE_US], id)
  else
    finish_delivery(id, head, state, state == FAILED and item[4] or '')
  end
  head[IS_MANUAL], head[BY], head[IS_SINGLE], head[LOST] = 0, '', 0, ''
  attempts = with_attempt(head, attempts, next_at, item[5])
  later('HSET', DELIVERIES, id, cmsgpack.pack(head) .. attempts)
  return note_health(queue, state)
end

local answers = {}
for i, item in ipairs(items) do answers[i] = finish(i, item) end
for queue in pairs(touched) do
  if queue.has_news then later('HSET', STEM .. 'health:' .. queue.account, queue.endpoint, queue.health_text) end
end
write_deliveries()
return { now, next_due(), cjson.encode(answers) }
