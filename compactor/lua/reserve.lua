-- Sets money and tokens aside for a compaction's model calls, unless its tenant's day would go over a cap.
-- KEYS  1 what the tenant spends | 2 this reservation
-- ARGV  1 micro-dollars | 2 tokens | 3 cap in micro-dollars, or empty | 4 cap in tokens, or empty
--       5 life of the reservation's mark in ms | 6 life of the figures in ms
-- returns 'kept' (also for a repeat) or 'over'
local time = redis.call('TIME')
local day = math.floor(time[1] / 86400) -- UTC
if redis.call('EXISTS', KEYS[2]) == 1 then return 'kept' end
local figures, spent = {day .. '.micro', day .. '.tokens'}, {}
for i, field in ipairs(figures) do
  local value = redis.call('HGET', KEYS[1], field) or '0'
  if value ~= '0' and (not string.match(value, '^%-?[1-9]%d*$') or #value > 15) then -- garbled from outside
    redis.call('HDEL', KEYS[1], field)
    value = '0'
  end
  spent[i] = tonumber(value)
end
if ARGV[3] ~= '' and spent[1] + ARGV[1] > tonumber(ARGV[3]) then return 'over' end
if ARGV[4] ~= '' and spent[2] + ARGV[2] > tonumber(ARGV[4]) then return 'over' end
for i, field in ipairs(figures) do redis.call('HINCRBY', KEYS[1], field, ARGV[i]) end
redis.call('SET', KEYS[2], day .. ' ' .. ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return 'kept'
