-- Finds the original at a position: archived, live, or in the conversation cleared last.
-- KEYS  the session's eight keys
-- ARGV  1 position
-- returns {'gone'}, {'archived', compressed record}, {'live', record}, or {'unknown'}
local state = redis.call('HMGET', KEYS[1], 'offset', 'cleared_offset')
if not state[1] then return {'gone'} end
local position = tonumber(ARGV[1])
local offset = tonumber(state[1])
local old = position < offset
local blob
if old then blob = redis.call('HGET', KEYS[8], ARGV[1]) else blob = redis.call('HGET', KEYS[4], ARGV[1]) end
if blob then return {'archived', blob} end
local record
if not old then
  record = redis.call('LINDEX', KEYS[2], position - offset)
elseif state[2] and position >= tonumber(state[2]) then
  record = redis.call('LINDEX', KEYS[7], position - state[2])
end
if record then return {'live', record} end
return {'unknown'}
