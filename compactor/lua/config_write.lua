-- Stores a model config: a new one, or a change of one that is at the version expected.
-- KEYS  1 records of the tenant | 2 configs of the user | 3 sealed api_keys of the tenant | 4 defaults of the tenant
-- ARGV  1 id | 2 user | 3 operation | 4 expected version, or empty: a new one | 5 body JSON | 6 1: is the default
--       | 7 what becomes of the api_key: keep, drop or set | 8 sealed api_key | 9 most configs of a user | 10 most of the tenant
-- returns {'ok', record, 1 when it is the default}, {'missing'}, {'stale', version}, {'full', 'user' or 'tenant'}
--         or {'damaged'}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local pattern = '^(%d+) (%d+) (%d+) (%S+) (%S+) (.*)$'
local default = redis.call('HGET', KEYS[4], ARGV[2])
local old, version, created = redis.call('HGET', KEYS[1], ARGV[1]), 0, now
if old then
  local found, born, _, operation, user = string.match(old, pattern)
  if not found or #found > 15 then return {'damaged'} end
  if user ~= ARGV[2] then return {'missing'} end
  if operation == ARGV[3] then return {'ok', old, default == ARGV[1] and 1 or 0} end -- a repeat whose answer was lost
  if found ~= ARGV[4] then return {'stale', tonumber(found)} end
  version, created = tonumber(found), born
elseif ARGV[4] ~= '' then
  return {'missing'}
elseif redis.call('HLEN', KEYS[2]) >= tonumber(ARGV[9]) then
  return {'full', 'user'}
elseif redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[10]) then
  return {'full', 'tenant'}
end
local left = default and default ~= ARGV[1] and ARGV[6] == '1' and redis.call('HGET', KEYS[1], default)

local record = table.concat({version + 1, created, now, ARGV[3], ARGV[2], ARGV[5]}, ' ')
redis.call('HSET', KEYS[1], ARGV[1], record)
if not old then redis.call('HSET', KEYS[2], ARGV[1], now) end
if ARGV[7] == 'set' then redis.call('HSET', KEYS[3], ARGV[1], ARGV[8]) end
if ARGV[7] == 'drop' then redis.call('HDEL', KEYS[3], ARGV[1]) end
if ARGV[6] == '1' then
  redis.call('HSET', KEYS[4], ARGV[2], ARGV[1])
elseif default == ARGV[1] then
  redis.call('HDEL', KEYS[4], ARGV[2])
end
if left then -- it shows another is_default from now on, so a change of it that knows the old one is stale
  local found, born, _, operation, user, body = string.match(left, pattern)
  if found and #found <= 15 then
    redis.call('HSET', KEYS[1], default, table.concat({found + 1, born, now, operation, user, body}, ' '))
  end
end
return {'ok', record, tonumber(ARGV[6])}
