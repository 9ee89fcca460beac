-- Ends the conversation: the history moves aside whole and stays recallable until the next clear.
-- KEYS  the session's eight keys
-- ARGV  1 operation | 2 remember ms
-- returns the number of messages that moved aside, 0 for an unknown session
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = redis.call('HGET', KEYS[3], ARGV[1])
if known then return tonumber(string.match(known, '^%d+')) end
local state = redis.call('HMGET', KEYS[1], 'revision', 'offset', 'length')
if not state[1] then -- nothing, or what an eviction left over
  for i = 1, #KEYS do redis.call('UNLINK', KEYS[i]) end
  return 0
end
local length = tonumber(state[3])
if length == 0 and redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
redis.call('UNLINK', KEYS[7], KEYS[8])
if redis.call('EXISTS', KEYS[2]) == 1 then redis.call('RENAME', KEYS[2], KEYS[7]) end
if redis.call('EXISTS', KEYS[4]) == 1 then redis.call('RENAME', KEYS[4], KEYS[8]) end
for _, encoding in ipairs({'cl100k_base', 'o200k_base'}) do
  redis.call('HDEL', KEYS[1], encoding .. '.total', encoding .. '.counted', encoding .. '.lead')
end
redis.call('HSET', KEYS[1], 'revision', state[1] + 1, 'cleared_offset', state[2], 'offset', state[2] + length,
  'length', 0, 'lead', 0, 'bytes', 0, 'chain', '', 'claim', 'idle', 'attempts', 0, 'not_before', 0, 'rearm', 0,
  'held', '', 'drafted', '', 'changed_min', 0)
redis.call('LPUSH', KEYS[6], 'all')
redis.call('LTRIM', KEYS[6], 0, 31)
redis.call('HSET', KEYS[3], ARGV[1], length .. ':' .. now + ARGV[2])
local left = redis.call('PTTL', KEYS[1])
if left > 0 then redis.call('PEXPIRE', KEYS[6], left) end
return length
