-- The broker did not take the task: the claim goes back, with a pause of 1 s doubling to 60 s.
-- KEYS  the session's eight keys
-- ARGV  1 owner
-- returns 'released' or 'lost'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local claim = redis.call('HMGET', KEYS[1], 'claim', 'owner', 'schema')
if tonumber(claim[3] or 1) > 1 then return 'lost' end -- a newer release has migrated it
if claim[1] ~= 'queued' or claim[2] ~= ARGV[1] then return 'lost' end
local failures = redis.call('HINCRBY', KEYS[1], 'publish_failures', 1)
local pause = math.min(60000, 1000 * 2 ^ math.min(failures - 1, 10))
redis.call('HSET', KEYS[1], 'claim', 'idle', 'not_before', now + pause, 'held', 'broker_down')
return 'released'
