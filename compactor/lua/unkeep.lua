-- Lets undone messages be replaced again, and unpins: clears the flags that keep them, and takes phrases back.
-- KEYS  the session's eight keys
-- ARGV  1 flag of undone, 2 of pinned messages | 3 pinned phrases as they were read, or '=', 4 those that stay, or '='
--       then positions
-- returns how many messages had a flag, or -1 for an unknown session, -2 for one of a newer release, -3 when other
--   phrases are pinned by now
local state = redis.call('HMGET', KEYS[1], 'version', 'offset', 'schema', 'revision', 'pins')
if not state[1] then return -1 end
if tonumber(state[3] or 1) > 1 then return -2 end
local pins = state[5] or ''
local unpins = ARGV[3] ~= '=' and pins ~= ARGV[4] -- a repeat finds what it left
if unpins and pins ~= ARGV[3] then return -3 end
local changed = {}
for i = 5, #ARGV do
  local index = ARGV[i] - state[2]
  local record = index >= 0 and redis.call('LINDEX', KEYS[2], index)
  local flags = record and #record >= 51 and string.byte(record, 1) == 1 and string.byte(record, 2) or 0
  local left = flags
  for flag = 1, 2 do
    local bit = tonumber(ARGV[flag])
    if math.floor(left / bit) % 2 == 1 then left = left - bit end
  end
  if left ~= flags then
    redis.call('LSET', KEYS[2], index, string.sub(record, 1, 1) .. string.char(left) .. string.sub(record, 3))
    changed[#changed + 1] = ARGV[i]
  end
end
if unpins then redis.call('HSET', KEYS[1], 'pins', ARGV[4], 'revision', state[4] + 1) end
if unpins or #changed > 0 then
  redis.call('HSET', KEYS[1], 'version', state[1] + 1, 'rearm', 0, 'held', '')
  redis.call('LPUSH', KEYS[6], table.concat(changed, ','))
  redis.call('LTRIM', KEYS[6], 0, 31)
  local left = redis.call('PTTL', KEYS[1])
  if left > 0 then redis.call('PEXPIRE', KEYS[6], left) end
end
return #changed
