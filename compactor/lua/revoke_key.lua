-- Revokes an API key; a repeat changes nothing.
-- KEYS  1 the keys of the namespace | 2 times of revocation
-- ARGV  1 id
-- returns 1, or 0 when there is no such key
local time = redis.call('TIME')
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSETNX', KEYS[2], ARGV[1], time[1])
return 1
