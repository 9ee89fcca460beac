-- The turn of a claim that waited has come: its task goes to the broker now.
-- KEYS  the session's eight keys
-- ARGV  1 owner | 2 queue patience ms
-- returns 'queued', or 'lost' (the claim is another's, or running)
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local claim = redis.call('HMGET', KEYS[1], 'claim', 'owner', 'schema')
if tonumber(claim[3] or 1) > 1 then return 'lost' end -- a newer release has migrated it
if claim[1] ~= 'queued' or claim[2] ~= ARGV[1] then return 'lost' end
redis.call('HSET', KEYS[1], 'until', now + ARGV[2], 'queued_at', now, 'published_at', now, 'requeued', 0)
return 'queued'
