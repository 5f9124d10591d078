-- Records when models were first seen.
-- KEYS: 1 models (hash of model -> ms)
-- ARGV: 1 now in ms, then ids of models
-- Returns: the time in ms at which each model was first seen, as decimal strings
local instants = {}
for i = 2, #ARGV do
  redis.call('HSETNX', KEYS[1], ARGV[i], ARGV[1])
  instants[i - 1] = redis.call('HGET', KEYS[1], ARGV[i])
end
return instants
