-- Makes a new session of copied records; never touches one that exists.
-- KEYS  the new session's eight keys
-- ARGV  1 operation | 2 ttl ms | how many of these follow:
--       3 state fields and values, 4 records, 5 archive positions and originals; then they, then audit rows
-- returns 'ok' (also for a repeat) or 'exists'
local forked = redis.call('HMGET', KEYS[1], 'revision', 'forked')
if forked[1] and forked[2] == ARGV[1] then return 'ok' end
if forked[1] or redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]) > 0 then
  return 'exists' -- or what an eviction left of it
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[1], 'schema', 1, 'revision', now, 'version', now, 'created', now, 'forked', ARGV[1])
local fields = 5 + ARGV[3]
local records = fields + ARGV[4]
local archive = records + ARGV[5]
for i = 6, fields, 1000 do redis.call('HSET', KEYS[1], unpack(ARGV, i, math.min(i + 999, fields))) end
for i = fields + 1, records, 1000 do redis.call('RPUSH', KEYS[2], unpack(ARGV, i, math.min(i + 999, records))) end
for i = records + 1, archive, 1000 do redis.call('HSET', KEYS[4], unpack(ARGV, i, math.min(i + 999, archive))) end
for i = archive + 1, #ARGV, 1000 do redis.call('RPUSH', KEYS[5], unpack(ARGV, i, math.min(i + 999, #ARGV))) end
for i = 1, #KEYS do redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
return 'ok'
