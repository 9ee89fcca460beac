-- Gives a session whose attempts are used up new ones; a claim that somebody holds stays as it is.
-- KEYS  the session's eight keys
-- ARGV  1 ms that a claim lasts at most
-- returns 'revived', 'busy' (claimed now), 'gone', or 'newer'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local state = redis.call('HMGET', KEYS[1], 'revision', 'claim', 'until', 'schema')
if not state[1] then return 'gone' end
if (tonumber(state[4]) or 1) > 1 then return 'newer' end
local left = (tonumber(state[3]) or 0) - now
if state[2] and state[2] ~= 'idle' and left > 0 and left <= tonumber(ARGV[1]) then return 'busy' end
redis.call('HSET', KEYS[1], 'claim', 'idle', 'attempts', 0, 'not_before', 0, 'held', '', 'error', '')
return 'revived'
