-- Enters figures with a tenant's day, in place of what was set aside for them; a repeat changes nothing.
-- KEYS  1 what the tenant spends | 2 the reservation, or a name of its own
-- ARGV  1 life of the reservation's mark in ms | 2 life of the figures in ms | 3 days that are kept
--       then per figure: name | whole number to add
-- returns 'entered' or 'repeat'
local time = redis.call('TIME')
local today = math.floor(time[1] / 86400) -- UTC
local held = redis.call('GET', KEYS[2])
if held == 'entered' then return 'repeat' end
local day, micro, tokens = string.match(held or '', '^(%d+) (%d+) (%d+)$')
day = day or today
local function add(name, amount)
  local field = day .. '.' .. name
  local value = redis.call('HGET', KEYS[1], field) or '0'
  if value ~= '0' and (not string.match(value, '^%-?[1-9]%d*$') or #value > 15) then
    redis.call('HDEL', KEYS[1], field) -- garbled from outside
  end
  redis.call('HINCRBY', KEYS[1], field, amount)
end
if redis.call('HEXISTS', KEYS[1], today .. '.first') == 0 then
  redis.call('HSET', KEYS[1], today .. '.first', 1)
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    local old = tonumber(string.match(field, '^(%d+)%.'))
    if not old or old <= today - ARGV[3] then redis.call('HDEL', KEYS[1], field) end
  end
end
if micro then
  if micro ~= '0' then add('micro', '-' .. micro) end
  if tokens ~= '0' then add('tokens', '-' .. tokens) end
end
for i = 4, #ARGV, 2 do add(ARGV[i], ARGV[i + 1]) end
redis.call('SET', KEYS[2], 'entered', 'PX', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 'entered'
