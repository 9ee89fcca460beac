-- Asks the breaker of a model server whether one call may start now.
-- KEYS  1 the breaker
-- ARGV  1 ms after which a trial call that never reported counts as lost
-- returns {'closed', failures so far}, {'trial', 0}, {'open', ms left}, {'tried', ms left of another's trial},
--   or {'paused', ms left of a pause that the server asked for}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = redis.call('HMGET', KEYS[1], 'open_until', 'trial_until', 'failures', 'paused_until')
if found[4] and tonumber(found[4]) > now then return {'paused', tonumber(found[4]) - now} end
if not found[1] then return {'closed', tonumber(found[3]) or 0} end
if tonumber(found[1]) > now then return {'open', tonumber(found[1]) - now} end
if found[2] and tonumber(found[2]) > now then return {'tried', tonumber(found[2]) - now} end
redis.call('HSET', KEYS[1], 'trial_until', now + ARGV[1])
return {'trial', 0}
