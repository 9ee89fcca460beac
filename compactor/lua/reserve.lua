-- Sets money and tokens aside for a compaction's model calls, unless its tenant's day would go over a cap.
-- KEYS  1 what the tenant spends | 2 this reservation
-- ARGV  1 micro-dollars | 2 tokens | 3 cap in micro-dollars, or empty | 4 cap in tokens, or empty
--       5 life of the reservation's mark in ms | 6 life of the figures in ms
-- returns 'kept' (also for a repeat) or 'over'
local time = redis.call('TIME')
local day = math.floor(time[1] / 86400) -- UTC
if redis.call('EXISTS', KEYS[2]) == 1 then return 'kept' end
local spent = redis.call('HMGET', KEYS[1], day .. '.micro', day .. '.tokens')
if ARGV[3] ~= '' and (tonumber(spent[1]) or 0) + ARGV[1] > tonumber(ARGV[3]) then return 'over' end
if ARGV[4] ~= '' and (tonumber(spent[2]) or 0) + ARGV[2] > tonumber(ARGV[4]) then return 'over' end
for i, name in ipairs({'.micro', '.tokens'}) do
  if not tonumber(spent[i] or 0) then redis.call('HDEL', KEYS[1], day .. name) end -- garbled from outside
  redis.call('HINCRBY', KEYS[1], day .. name, ARGV[i])
end
redis.call('SET', KEYS[2], day .. ' ' .. ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return 'kept'
