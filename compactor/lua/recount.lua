-- Stores the total of a history in an encoding that did not count all of it yet.
-- KEYS  the session's eight keys
-- ARGV  1 encoding | 2 version | 3 length | 4 total | 5 tokens of the leading system messages
-- returns 'ok', or 'changed' when the history is another one by now
local state = redis.call('HMGET', KEYS[1], 'version', 'length', 'schema')
if tonumber(state[3] or 1) > 1 then return 'changed' end -- a newer release has migrated it
if state[1] ~= ARGV[2] or state[2] ~= ARGV[3] then return 'changed' end
redis.call('HSET', KEYS[1], ARGV[1] .. '.total', ARGV[4], ARGV[1] .. '.counted', ARGV[3], ARGV[1] .. '.lead', ARGV[5])
return 'ok'
