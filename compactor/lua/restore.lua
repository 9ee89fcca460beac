-- Puts records in place: originals where their replacements stand, or a pinned message; and pins phrases.
-- KEYS  the session's eight keys
-- ARGV  1 version that this was planned on | 2 audit row JSON or empty | 3 bytes added to the messages
--       4 phrases that are pinned from now on as JSON, or '=': as they are | 5 number of encodings, then encoding, tokens added in each, then per message: position | record
-- returns 'ok', 'changed', 'gone', or 'newer'
local state = redis.call('HMGET', KEYS[1], 'version', 'offset', 'revision', 'length', 'changed_min', 'schema')
if not state[1] then return 'gone' end
if tonumber(state[6] or 1) > 1 then return 'newer' end
if state[1] ~= ARGV[1] or redis.call('LLEN', KEYS[2]) ~= tonumber(state[4]) then return 'changed' end
local first, known = 6 + 2 * ARGV[5], {}
local bytes, positions, lowest = tonumber(ARGV[3]), {}, nil
for i = first, #ARGV, 2 do
  redis.call('LSET', KEYS[2], ARGV[i] - state[2], ARGV[i + 1])
  if string.byte(ARGV[i + 1], 3) ~= 8 then -- of what a push had cut, the whole stays where it is
    bytes = bytes - redis.call('HSTRLEN', KEYS[4], ARGV[i])
    redis.call('HDEL', KEYS[4], ARGV[i])
  end
  positions[#positions + 1] = ARGV[i]
  lowest = math.min(lowest or tonumber(ARGV[i]), tonumber(ARGV[i]))
end
for i = 6, first - 1, 2 do
  known[ARGV[i]] = true
  redis.call('HINCRBY', KEYS[1], ARGV[i] .. '.total', ARGV[i + 1])
end
for _, encoding in ipairs({'cl100k_base', 'o200k_base'}) do
  if not known[encoding] then redis.call('HDEL', KEYS[1], encoding .. '.total', encoding .. '.counted', encoding .. '.lead') end
end
redis.call('HINCRBY', KEYS[1], 'bytes', bytes)
if ARGV[4] ~= '=' then -- what is being written now may lack a phrase, wherever it stands
  redis.call('HSET', KEYS[1], 'pins', ARGV[4])
  lowest = 0
end
redis.call('HSET', KEYS[1], 'revision', state[3] + 1, 'version', state[1] + 1, 'rearm', 0, 'held', '', 'not_before', 0)
if not state[5] or state[5] == '' or tonumber(state[5]) > lowest then redis.call('HSET', KEYS[1], 'changed_min', lowest) end
redis.call('LPUSH', KEYS[6], table.concat(positions, ','))
redis.call('LTRIM', KEYS[6], 0, 31)
if ARGV[2] ~= '' then
  redis.call('RPUSH', KEYS[5], ARGV[2])
  redis.call('LTRIM', KEYS[5], -1000, -1)
end
local left = redis.call('PTTL', KEYS[1])
if left > 0 then
  redis.call('PEXPIRE', KEYS[5], left)
  redis.call('PEXPIRE', KEYS[6], left)
end
return 'ok'
