-- A worker hands its claim to its own later retry.
-- KEYS  the session's eight keys
-- ARGV  1 owner | 2 ms until the retry, queue patience included | 3 ms until the retry | 4 whether this run was an attempt
-- returns 'queued' or 'lost'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local claim = redis.call('HMGET', KEYS[1], 'claim', 'owner', 'schema', 'attempts')
if tonumber(claim[3] or 1) > 1 then return 'lost' end -- a newer release has migrated it
if claim[1] == 'queued' and claim[2] == ARGV[1] then return 'queued' end -- a repeat of this very call
if claim[1] ~= 'running' or claim[2] ~= ARGV[1] then return 'lost' end
redis.call('HSET', KEYS[1], 'claim', 'queued', 'until', now + ARGV[2], 'published_at', now + ARGV[3], 'requeued', 0)
if ARGV[4] == '0' then redis.call('HSET', KEYS[1], 'attempts', math.max(0, (tonumber(claim[4]) or 0) - 1)) end
redis.call('HDEL', KEYS[1], 'queued_at')
return 'queued'
