-- Replaces messages in place, if nothing at or before the plan's last position changed meanwhile.
-- KEYS  the session's eight keys
-- ARGV  1 owner, also the compaction's id | 2 last position of the plan | 3 outcome JSON | 4 bytes saved
--       5 re-arm level | 6 held reason | 7 number of encodings, then encoding, tokens saved of each
--       then per message: position | record
-- returns 'applied' (also for a repeat), 'stale', or 'gone'
local state = redis.call('HMGET', KEYS[1], 'revision', 'offset', 'claim', 'owner', 'changed_min', 'applied', 'length', 'version', 'schema')
if not state[1] then return 'gone' end
if tonumber(state[9] or 1) > 1 then return 'stale' end -- a newer release has migrated it
if state[6] == ARGV[1] and not (state[3] == 'running' and state[4] == ARGV[1]) then return 'applied' end
if state[3] ~= 'running' or state[4] ~= ARGV[1] then return 'stale' end
if redis.call('LLEN', KEYS[2]) ~= tonumber(state[7]) then return 'stale' end
local last = tonumber(ARGV[2])
if state[5] and state[5] ~= '' and tonumber(state[5]) <= last then return 'stale' end

local offset = tonumber(state[2])
local first = 8 + 2 * ARGV[7]
local positions = {}
for i = first, #ARGV, 2 do
  redis.call('LSET', KEYS[2], ARGV[i] - offset, ARGV[i + 1])
  positions[#positions + 1] = ARGV[i]
end
local known = {}
for i = 8, first - 1, 2 do
  known[ARGV[i]] = true
  redis.call('HINCRBY', KEYS[1], ARGV[i] .. '.total', 0 - ARGV[i + 1])
end
-- An encoding that the plan did not know is counted anew by its next reader.
for _, encoding in ipairs({'cl100k_base', 'o200k_base'}) do
  if not known[encoding] then redis.call('HDEL', KEYS[1], encoding .. '.total', encoding .. '.counted', encoding .. '.lead') end
end
redis.call('HINCRBY', KEYS[1], 'bytes', 0 - ARGV[4])
redis.call('HSET', KEYS[1], 'revision', state[1] + 1, 'version', state[8] + 1, 'claim', 'idle', 'attempts', 0, 'not_before', 0,
  'rearm', ARGV[5], 'held', ARGV[6], 'drafted', '', 'applied', ARGV[1], 'last', ARGV[3],
  'spent_in', 0, 'spent_out', 0)
redis.call('HDEL', KEYS[1], 'shadow')
redis.call('LPUSH', KEYS[6], table.concat(positions, ','))
redis.call('LTRIM', KEYS[6], 0, 31)
redis.call('RPUSH', KEYS[5], ARGV[3])
redis.call('LTRIM', KEYS[5], -1000, -1)
local left = redis.call('PTTL', KEYS[1])
if left > 0 then
  redis.call('PEXPIRE', KEYS[5], left)
  redis.call('PEXPIRE', KEYS[6], left)
end
return 'applied'
