-- A model server asked for a pause: no call starts until it is over.
-- KEYS  1 the breaker
-- ARGV  1 ms of the pause | 2 ms that the breaker is kept at least
-- returns 'paused'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = tonumber(redis.call('HGET', KEYS[1], 'paused_until') or 0) or 0
redis.call('HSET', KEYS[1], 'paused_until', math.max(known, now + ARGV[1]))
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 'paused'
