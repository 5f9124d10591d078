-- Precedes scripts that write events or create their deliveries, after deliveries.
-- KEYS: 1 format
-- ARGV: none
-- Returns: nothing; defines deliveries_made, add_event, deliver_oldest and fan_out
local EVENTS, BODY_HOLDERS = STEM .. 'events', STEM .. 'body_holders'
-- Number of deliveries that are created for one account before the next account has its turn.
local TURN_MAX = 32

local events_added, deliveries_made, turns_taken = 0, 0, 0

local function waiting_of(account) return STEM .. 'waiting:' .. account end

-- Returns the endpoints of both lists, without duplicates.
local function union(before, now_there)
  local all, is_there = {}, {}
  for _, list in ipairs({ before, now_there }) do
    for _, endpoint in ipairs(list) do
      if not is_there[endpoint] then all[#all + 1], is_there[endpoint] = endpoint, true end
    end
  end
  return all
end

-- Writes an event for these endpoints. If the event already waits, it keeps its time and gets the endpoints of both. The
-- times of events are one microsecond apart, also between calls of scripts: they are the order of the first attempts.
local function add_event(account, event, event_type, endpoints, body)
  local at_us = clock_us + events_added
  events_added = events_added + 1
  if redis.call('ZADD', waiting_of(account), 'NX', at_us, event) == 0 then
    local before = cmsgpack.unpack(redis.call('HGET', EVENTS, event))
    at_us, endpoints = before[2], union(before[3], endpoints)
  end
  redis.call('HSET', EVENTS, event, cmsgpack.pack({ event_type, at_us, endpoints, body }))
  redis.call('ZADD', EVENT_TURNS, 'NX', at_us, account)
end

-- Creation times are one microsecond apart, also between calls of scripts: they are the positions in lists.
local function create_delivery(id, account, event, event_type, endpoint, at_us, open_max)
  local created_us = clock_us + deliveries_made
  -- The clock may have been set back since the event was written.
  local due_us = math.min(at_us, created_us)
  local head = { PENDING, account, event, event_type, endpoint, created_us, due_us, 0, 0, 0, '', 0, '', 0, '', 0, '' }
  count_open(account, 1)
  if open_of(account) > open_max then
    finish_delivery(id, head, FAILED, 'overflow')
  else
    list_delivery(OPEN, id, head)
    later('ZADD', queue_of(account, endpoint).key, due_us, id)
  end
  later('HSET', DELIVERIES, id, cmsgpack.pack(head))
  deliveries_made = deliveries_made + 1
end

-- Creates the deliveries of an event that do not exist yet. Several deliveries share one body. Returns the number of endpoints.
local function create_deliveries(account, event, record, open_max)
  local event_type, at_us, endpoints, body = unpack(cmsgpack.unpack(record))
  local ids, created = {}, {}
  for i, endpoint in ipairs(endpoints) do
    ids[i] = 'dlv_' .. string.sub(redis.sha1hex(event .. '/' .. endpoint), 1, 32)
  end
  local known = redis.call('HMGET', DELIVERIES, unpack(ids))
  for i, id in ipairs(ids) do
    if not known[i] then
      create_delivery(id, account, event, event_type, endpoints[i], at_us, open_max)
      created[#created + 1] = id
    end
  end
  if #created == 1 then
    later('HSET', BODIES, created[1], body)
  elseif #created > 1 then
    later('HSET', BODIES, event, body)
    redis.call('HINCRBY', BODY_HOLDERS, event, #created)
  end
  return #endpoints
end

-- Creates about `max` deliveries of the account's oldest events, and moves the account to the end of the line. Returns how
-- many.
local function deliver_oldest(account, max, open_max)
  local key = waiting_of(account)
  local events = redis.call('ZRANGE', key, 0, max - 1)
  local done, made = {}, 0
  if #events > 0 then
    local records = redis.call('HMGET', EVENTS, unpack(events))
    for i, event in ipairs(events) do
      made = made + (records[i] and create_deliveries(account, event, records[i], open_max) or 1)
      done[i] = event
      if made >= max then break end
    end
    redis.call('ZREM', key, unpack(done))
    redis.call('HDEL', EVENTS, unpack(done))
  end
  turns_taken = turns_taken + 1
  if redis.call('ZCARD', key) == 0 then
    redis.call('ZREM', EVENT_TURNS, account)
  else
    redis.call('ZADD', EVENT_TURNS, clock_us + turns_taken, account)
  end
  return made
end

-- Creates about `max` deliveries of waiting events, the accounts in turn.
local function fan_out(max, open_max)
  local left = max
  while left > 0 do
    local account = redis.call('ZRANGE', EVENT_TURNS, 0, 0)[1]
    if not account then break end
    left = left - deliver_oldest(account, math.min(TURN_MAX, left), open_max)
  end
  if left < max then write_deliveries() end
end
