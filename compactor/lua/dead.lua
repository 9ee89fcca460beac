-- Enters a session into the list of the dead.
-- KEYS  1 the namespace's list
-- ARGV  1 session | 2 reason as JSON | 3 attempts | 4 life of the list in ms | 5 'anew' to replace an entry
-- returns 1 when the entry was written, 0 when there was one
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
if ARGV[5] ~= 'anew' and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], '{"reason":' .. ARGV[2] .. ',"attempts":' .. ARGV[3] .. ',"since":' .. now .. '}')
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
