-- Tells the breaker of a model server how one call ended.
-- KEYS  1 the breaker
-- ARGV  1 'answered' or 'failed' | 2 failures in a row that open it | 3 ms that it stays open | 4 ms that it is kept
-- returns 'closed', 'open', or 'late' when it was open already
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local open_until = redis.call('HGET', KEYS[1], 'open_until')
if open_until and tonumber(open_until) > now then return 'late' end -- begun before it opened
if ARGV[1] == 'answered' then
  redis.call('HDEL', KEYS[1], 'failures', 'open_until', 'trial_until') -- a pause that was asked for goes on
  return 'closed'
end
local failures = redis.call('HINCRBY', KEYS[1], 'failures', 1)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
if failures < tonumber(ARGV[2]) then return 'closed' end
redis.call('HSET', KEYS[1], 'open_until', now + ARGV[3])
redis.call('HDEL', KEYS[1], 'trial_until')
return 'open'
