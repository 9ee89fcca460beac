-- Appends messages once, adds their tokens to the running total, remembers the operation.
-- KEYS  the session's eight keys (see commands/command.py)
-- ARGV  1 operation | 2 remember ms | 3 ttl ms | 4 max session bytes | 5 encoding | 6 threshold | 7 fixed
--       8 tokens | 9 bytes | 10 leading system messages | 11 their tokens
--       then per message: head without time | own fingerprint | JSON
-- returns {'ok', total or -1 when this encoding is not fully counted, length, first position, over}
--         or {'full', bytes} or {'damaged'}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = redis.call('HGET', KEYS[3], ARGV[1])
if known then
  local answer = {'ok'}
  for number in string.gmatch(known, '-?%d+') do answer[#answer + 1] = tonumber(number) end
  answer[#answer] = nil
  return answer
end
local encoding, ttl = ARGV[5], tonumber(ARGV[3])
local state = redis.call('HMGET', KEYS[1], 'revision', 'offset', 'length', 'bytes', 'chain', 'lead',
  encoding .. '.total', encoding .. '.counted', encoding .. '.lead',
  'judged_encoding', 'judged_threshold', 'judged_fixed')
local fresh = not state[1]
local offset, length = tonumber(state[2] or 0), tonumber(state[3] or 0)
local bytes = tonumber(state[4] or 0) + ARGV[9]
if redis.call('LLEN', KEYS[2]) ~= length then return {'damaged'} end
if bytes > tonumber(ARGV[4]) then return {'full', bytes} end

local chain = state[5] or ''
local stamp = struct.pack('>I8', now)
local records = {}
for i = 12, #ARGV, 3 do
  chain = string.sub(redis.sha1hex(chain .. ARGV[i + 1]), 1, 16)
  records[#records + 1] = ARGV[i] .. stamp .. ARGV[i + 1] .. ARGV[i + 1] .. chain .. ARGV[i + 2]
end
for i = 1, #records, 1000 do
  redis.call('RPUSH', KEYS[2], unpack(records, i, math.min(i + 999, #records)))
end

local total, counted = tonumber(state[7] or 0), tonumber(state[8] or 0)
local changes = {'length', length + #records, 'bytes', bytes, 'chain', chain}
local function set(name, value)
  changes[#changes + 1] = name
  changes[#changes + 1] = value
end
if fresh then
  set('schema', 1); set('revision', now); set('offset', 0); set('created', now)
end
if counted == length then
  total = total + ARGV[8]
  set(encoding .. '.total', total); set(encoding .. '.counted', length + #records)
  if tonumber(state[6] or 0) == length and ARGV[10] ~= '0' then
    set('lead', length + ARGV[10]); set(encoding .. '.lead', (state[9] or 0) + ARGV[11])
  end
else
  total = -1
  if tonumber(state[6] or 0) == length and ARGV[10] ~= '0' then set('lead', length + ARGV[10]) end
end
redis.call('HSET', KEYS[1], unpack(changes))

local threshold, fixed = tonumber(ARGV[6]), tonumber(ARGV[7])
if state[10] == encoding then threshold, fixed = tonumber(state[11]), tonumber(state[12]) end
local over = (total >= 0 and total + fixed >= threshold) and 1 or 0
local answer = {'ok', total, length + #records, offset + length, over}
redis.call('HSET', KEYS[3], ARGV[1],
  table.concat({total, length + #records, offset + length, over, now + ARGV[2]}, ':'))

-- Forget operations in one sweep when their number doubled: amortised one step per push.
local remembered = redis.call('HLEN', KEYS[3])
if remembered > 512 and remembered >= 2 * tonumber(redis.call('HGET', KEYS[1], 'swept') or 256) then
  local all = redis.call('HGETALL', KEYS[3])
  for i = 1, #all, 2 do
    if tonumber(string.match(all[i + 1], '(%d+)$')) < now then
      redis.call('HDEL', KEYS[3], all[i])
      remembered = remembered - 1
    end
  end
  redis.call('HSET', KEYS[1], 'swept', math.max(256, remembered))
end
if length == 0 or redis.call('PTTL', KEYS[1]) < ttl * 0.99 then
  for i = 1, #KEYS do redis.call('PEXPIRE', KEYS[i], ttl) end
end
return answer
