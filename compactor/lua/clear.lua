-- Ends the conversation: the history moves aside whole and stays recallable until the next clear.
-- KEYS  the session's eight keys, and its summaries
-- ARGV  1 operation | 2 remember ms | 3 'clear', 'heal' (only if its parts disagree) or 'erase' (the content goes for good)
-- returns {live messages that left, archived originals that left, messages and originals of the conversation before
--          that left for good, audit rows that stay}, {'newer', schema}, or {} for an unknown session
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local left = -1
for i = 1, #KEYS do left = math.max(left, redis.call('PTTL', KEYS[i])) end
if ARGV[3] == 'erase' then -- a key of another type, set from outside, must not stand in the way
  local kinds = {'hash', 'list', 'hash', 'hash', 'list', 'list', 'list', 'hash', 'hash'}
  for i = 1, #KEYS do if redis.call('TYPE', KEYS[i]).ok ~= kinds[i] then redis.call('UNLINK', KEYS[i]) end end
end
local known = redis.call('HGET', KEYS[3], ARGV[1])
if known then
  local answer = {}
  for number in string.gmatch(known, '%d+') do answer[#answer + 1] = tonumber(number) end
  answer[#answer] = nil
  return answer
end
local state = redis.call('HMGET', KEYS[1], 'revision', 'offset', 'length', 'version', 'tombs', 'schema', 'bytes',
  'lead', 'cl100k_base.total', 'cl100k_base.counted', 'cl100k_base.lead',
  'o200k_base.total', 'o200k_base.counted', 'o200k_base.lead', 'changed_min', 'cleared_bytes')
if (tonumber(state[6]) or 1) > 1 then return {'newer', state[6]} end
local figures = {}
for i, value in ipairs(state) do
  figures[i] = value and #value <= 16 and string.match(value, '^%-?%d+$') and tonumber(value) or nil
end
local rows = redis.call('LLEN', KEYS[2])
if not state[1] and rows == 0 then -- nothing, or what an eviction left over of no use
  redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4], KEYS[6], KEYS[7], KEYS[8], KEYS[9])
  return {}
end
-- What was garbled from outside must not stand in the way of an end.
local offset, length, tombs = figures[2] or 0, figures[3] or 0, figures[5] or 0
if not figures[2] then -- where positions went on is lost: behind an ended conversation they must not come again
  local log = redis.call('LRANGE', KEYS[6], 0, -1)
  local ended = #log >= 32
  for i = 1, #log do ended = ended or log[i] == 'all' end
  if ended then offset = now end
end
local sound = rows == length
for i, value in ipairs(state) do
  sound = sound and (figures[i] or not (value or i <= 4) or (i == 15 and value == ''))
end
if ARGV[3] == 'heal' and sound then return {} end
local answer = {math.max(0, rows - tombs), redis.call('HLEN', KEYS[4]), 0, redis.call('LLEN', KEYS[5])}
if ARGV[3] == 'clear' and length == 0 and rows == 0 then return {0, 0, 0, answer[4]} end

if ARGV[3] ~= 'heal' then redis.call('HDEL', KEYS[1], 'pins') end
answer[3] = redis.call('LLEN', KEYS[7]) + redis.call('HLEN', KEYS[8])
redis.call('UNLINK', KEYS[7], KEYS[8], KEYS[9])
redis.call('HSET', KEYS[1], 'cleared_offset', offset)
if ARGV[3] == 'erase' then
  redis.call('UNLINK', KEYS[2], KEYS[4])
  redis.call('HSET', KEYS[1], 'cleared_bytes', 0)
else
  redis.call('HSET', KEYS[1], 'cleared_bytes', figures[7] or 0)
  if rows > 0 then redis.call('RENAME', KEYS[2], KEYS[7]) end
  if redis.call('EXISTS', KEYS[4]) == 1 then redis.call('RENAME', KEYS[4], KEYS[8]) end
end
for _, encoding in ipairs({'cl100k_base', 'o200k_base'}) do
  redis.call('HDEL', KEYS[1], encoding .. '.total', encoding .. '.counted', encoding .. '.lead')
end
redis.call('HSET', KEYS[1], 'schema', 1, 'revision', (figures[1] or now) + 1, 'version', (figures[4] or now) + 1,
  'offset', offset + math.max(length, rows), 'length', 0, 'tombs', 0, 'lead', 0, 'bytes', 0, 'chain', '',
  'claim', 'idle', 'attempts', 0, 'not_before', 0, 'rearm', 0, 'held', '', 'drafted', '', 'changed_min', 0,
  'draft', '', 'draft_level', '')
redis.call('HDEL', KEYS[1], 'shadow')
redis.call('LPUSH', KEYS[6], 'all')
redis.call('LTRIM', KEYS[6], 0, 31)
redis.call('HSET', KEYS[3], ARGV[1], table.concat(answer, ':') .. ':' .. now + ARGV[2])
if left > 0 then
  for i = 1, #KEYS do redis.call('PEXPIRE', KEYS[i], left) end
end
return answer
