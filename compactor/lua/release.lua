-- Ends a claim without a swap.
-- KEYS  the session's eight keys
-- ARGV  1 owner | 2 outcome JSON | 3 not before, in ms from now | 4 re-arm level | 5 held reason
--       6 audit: 1 to append the outcome to the audit | 7 what shadow runs drafted, if anything is new of it
-- returns 'released' or 'lost'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local claim = redis.call('HMGET', KEYS[1], 'claim', 'owner', 'schema', 'last')
if tonumber(claim[3] or 1) > 1 then return 'lost' end -- a newer release has migrated it
if claim[2] == ARGV[1] and claim[4] == ARGV[2] then return 'released' end -- a repeat of this very call
if claim[1] ~= 'running' or claim[2] ~= ARGV[1] then return 'lost' end
redis.call('HSET', KEYS[1], 'claim', 'idle', 'attempts', 0, 'not_before', now + ARGV[3], 'rearm', ARGV[4],
  'held', ARGV[5], 'last', ARGV[2], 'spent_in', 0, 'spent_out', 0)
if ARGV[7] then redis.call('HSET', KEYS[1], 'shadow', ARGV[7]) end
if ARGV[6] == '1' then
  redis.call('RPUSH', KEYS[5], ARGV[2])
  redis.call('LTRIM', KEYS[5], -1000, -1)
  local left = redis.call('PTTL', KEYS[1])
  if left > 0 then redis.call('PEXPIRE', KEYS[5], left) end
end
return 'released'
