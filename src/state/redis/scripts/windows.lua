-- Precedes scripts that use sliding windows, after the prelude. A window counts for 60 to 65 seconds: twelve full buckets
-- of 5 s and the current one. Each is read once and written once, however many items of a call charge it.
-- KEYS: windows, at the places of the script
-- ARGV: none
-- Returns: nothing; defines bucket_now, window, window_add, window_correct, window_wait, window_reset, empty_window and
--   write_windows
local BUCKET_MS, BUCKETS, WINDOW_LIFE_MS = 5000, 13, 70000
local bucket_now = math.floor(now / BUCKET_MS)
local windows = {}

-- Adds to the newest bucket, or creates it.
local function window_append(w, bucket, requests, tokens)
  local n = #w.bucket
  if w.bucket[n] ~= bucket then
    n = n + 1
    w.bucket[n], w.requests[n], w.tokens[n] = bucket, 0, 0
  end
  w.requests[n], w.tokens[n] = w.requests[n] + requests, w.tokens[n] + tokens
  w.sum.requests, w.sum.tokens = w.sum.requests + requests, w.sum.tokens + tokens
end

local function new_window(emptied_at)
  return { emptied_at = emptied_at, bucket = {}, requests = {}, tokens = {}, sum = { requests = 0, tokens = 0 } }
end

local function window(key)
  local w = windows[key]
  if w then return w end
  w = new_window(0)
  local packed = redis.call('GET', key)
  if packed then
    local kept = cmsgpack.unpack(packed)
    w.emptied_at = kept[1]
    for i = 2, #kept, 3 do
      local bucket = kept[i]
      -- If the clock was set back, there are buckets in the future: they count as current and are rewritten.
      if bucket > bucket_now then bucket, w.changed = bucket_now, true end
      if bucket > bucket_now - BUCKETS then window_append(w, bucket, kept[i + 1], kept[i + 2]) end
    end
  end
  windows[key] = w
  return w
end

local function window_add(w, requests, tokens)
  window_append(w, bucket_now, requests, tokens)
  w.changed = true
end

-- Corrects a charge that was made at charged_at. A refund is subtracted from the bucket of the charge, or dropped if it has
-- expired or was emptied, so that it does not reduce later charges; an addition is added to this bucket, or else to the
-- current one.
local function window_correct(w, charged_at, bucket, tokens)
  if tokens < 0 and charged_at <= w.emptied_at then return end
  for i = 1, #w.bucket do
    if w.bucket[i] == bucket then
      local after = math.max(0, w.tokens[i] + tokens)
      w.sum.tokens = w.sum.tokens + after - w.tokens[i]
      w.tokens[i] = after
      w.changed = true
      return
    end
  end
  if tokens > 0 then window_add(w, 0, tokens) end
end

local function until_gone(bucket)
  return (bucket + BUCKETS) * BUCKET_MS - now
end

-- 0: fits under the limit now; -1: never fits; otherwise the milliseconds until it fits if nothing else is charged.
-- what: 'requests' or 'tokens'.
local function window_wait(w, what, cost, limit)
  if cost > limit then return -1 end
  local excess = w.sum[what] + cost - limit
  if excess <= 0 then return 0 end
  for i = 1, #w.bucket do
    excess = excess - w[what][i]
    if excess <= 0 then return until_gone(w.bucket[i]) end
  end
end

-- Milliseconds until the window is empty if nothing else is charged.
local function window_reset(w, what)
  for i = #w.bucket, 1, -1 do
    if w[what][i] > 0 then return until_gone(w.bucket[i]) end
  end
  return 0
end

local function empty_window(key)
  windows[key] = new_window(now)
  windows[key].changed = true
end

local function write_windows()
  for key, w in pairs(windows) do
    if w.changed then
      local kept = { w.emptied_at }
      for i = 1, #w.bucket do
        kept[3 * i - 1], kept[3 * i], kept[3 * i + 1] = w.bucket[i], w.requests[i], w.tokens[i]
      end
      redis.call('SET', key, cmsgpack.pack(kept), 'PX', WINDOW_LIFE_MS)
    end
  end
end
