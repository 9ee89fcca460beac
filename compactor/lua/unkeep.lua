-- Lets undone messages be replaced again: clears the flag that keeps them.
-- KEYS  the session's eight keys
-- ARGV  1 flag | then positions
-- returns how many messages had it, or -1 for an unknown session, -2 for one of a newer release
local state = redis.call('HMGET', KEYS[1], 'version', 'offset', 'schema')
if not state[1] then return -1 end
if tonumber(state[3] or 1) > 1 then return -2 end
local flag, changed = tonumber(ARGV[1]), {}
for i = 2, #ARGV do
  local index = ARGV[i] - state[2]
  local record = index >= 0 and redis.call('LINDEX', KEYS[2], index)
  local flags = record and #record >= 51 and string.byte(record, 1) == 1 and string.byte(record, 2) or 0
  if math.floor(flags / flag) % 2 == 1 then
    redis.call('LSET', KEYS[2], index, string.sub(record, 1, 1) .. string.char(flags - flag) .. string.sub(record, 3))
    changed[#changed + 1] = ARGV[i]
  end
end
if #changed > 0 then
  redis.call('HSET', KEYS[1], 'version', state[1] + 1, 'rearm', 0, 'held', '')
  redis.call('LPUSH', KEYS[6], table.concat(changed, ','))
  redis.call('LTRIM', KEYS[6], 0, 31)
  local left = redis.call('PTTL', KEYS[1])
  if left > 0 then redis.call('PEXPIRE', KEYS[6], left) end
end
return #changed
