-- A task failed on a bug of ours: its claim goes back at once, with a pause and its attempts kept.
-- KEYS  the session's eight keys
-- ARGV  1 owner | 2 pause ms | 3 error: exception type and place | 4 max attempts
-- returns 'released', 'dead' (its attempts are used up), 'lost' (the claim is another's), or 'newer'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local claim = redis.call('HMGET', KEYS[1], 'claim', 'owner', 'attempts', 'schema')
if tonumber(claim[4] or 1) > 1 then return 'newer' end
if claim[1] ~= 'running' or claim[2] ~= ARGV[1] then return 'lost' end
local dead = tonumber(claim[3] or 0) >= tonumber(ARGV[4])
redis.call('HSET', KEYS[1], 'claim', 'idle', 'not_before', now + ARGV[2], 'held', dead and 'dead' or 'crashed',
  'error', ARGV[3])
return dead and 'dead' or 'released'
