-- Appends messages once, adds their tokens to the running total, remembers the operation.
-- KEYS  the session's eight keys (see commands/command.py)
-- ARGV  1 operation | 2 remember ms | 3 ttl ms | 4 max session bytes | 5 encoding | 6 threshold | 7 fixed
--       8 bytes | 9 leading system messages
--       10, 11 tokens in cl100k_base, those of the leading ones; 12, 13 in o200k_base; empty: not counted
--       14 position that the first message must get, since its text names it; empty: any
--       then per message: head without time | own fingerprint | fingerprint of what is shown | what stands behind
--         the head | the original for the archive, when a cut one is shown; else empty
-- returns {'ok', total or -1 when the encoding is not fully counted, live messages, first position, over,
--          1 when the other encoding was fully counted and fell behind, bytes of the session, those that a clear moved aside included}
--         or {'moved', position that the first message would get}, {'full', bytes}, {'damaged'}, or {'newer', schema}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local encoding, ttl = ARGV[5], tonumber(ARGV[3])
local state = redis.call('HMGET', KEYS[1], 'revision', 'offset', 'length', 'bytes', 'chain', 'lead',
  'judged_encoding', 'judged_threshold', 'judged_fixed',
  'cl100k_base.total', 'cl100k_base.counted', 'cl100k_base.lead',
  'o200k_base.total', 'o200k_base.counted', 'o200k_base.lead', 'schema', 'tombs', 'cleared_bytes', 'version')
if (tonumber(state[16]) or 1) > 1 then return {'newer', state[16]} end
local fresh = not state[1]
for i, value in ipairs(state) do -- looked at before the first write, behind which nothing may fail
  local figure = i ~= 5 and i ~= 7
  if figure and value and not (#value <= 16 and string.match(value, '^%-?%d+$')) then return {'damaged'} end
end
if not fresh and not (state[2] and state[3] and state[19]) then return {'damaged'} end
if fresh and redis.call('EXISTS', KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]) > 0 then
  return {'damaged'} -- state and messages were evicted: what is left is not a new session's
end
local known = redis.call('HGET', KEYS[3], ARGV[1])
if known then
  local answer = {'ok'}
  for number in string.gmatch(known, '-?%d+') do answer[#answer + 1] = tonumber(number) end
  answer[#answer] = nil
  if #answer ~= 7 then return {'damaged'} end
  return answer
end
local offset, length = tonumber(state[2] or 0), tonumber(state[3] or 0)
local bytes = tonumber(state[4] or 0) + ARGV[8]
if redis.call('LLEN', KEYS[2]) ~= length then return {'damaged'} end
if ARGV[14] ~= '' and tonumber(ARGV[14]) ~= offset + length then return {'moved', offset + length} end
if bytes > tonumber(ARGV[4]) then return {'full', bytes} end

local chain = state[5] or ''
local leads = ARGV[9] ~= '0' and tonumber(state[6] or 0) == length
local stamp, nothing = struct.pack('>I8', now), string.rep('0', 16)
local records, archives = {}, false
for i = 15, #ARGV, 5 do
  -- A caller's own list is compared with the history behind the leading system messages.
  if not leads or #records >= tonumber(ARGV[9]) then chain = string.sub(redis.sha1hex(chain .. ARGV[i + 1]), 1, 16) end
  if ARGV[i + 4] ~= '' then
    archives = true
    redis.call('HSET', KEYS[4], offset + length + #records, ARGV[i + 4])
  end
  records[#records + 1] = ARGV[i] .. stamp .. ARGV[i + 1] .. ARGV[i + 2] .. (chain == '' and nothing or chain) .. ARGV[i + 3]
end
for i = 1, #records, 1000 do
  redis.call('RPUSH', KEYS[2], unpack(records, i, math.min(i + 999, #records)))
end

local changes = {'length', length + #records, 'bytes', bytes, 'chain', chain}
local function set(name, value)
  changes[#changes + 1] = name
  changes[#changes + 1] = value
end
if fresh then
  set('schema', 1); set('revision', now); set('version', now); set('offset', 0); set('created', now)
end
if leads then set('lead', length + ARGV[9]) end
local total, behind = -1, 0
for place, name in ipairs({'cl100k_base', 'o200k_base'}) do
  local old, arg = 7 + 3 * place, 8 + 2 * place
  if tonumber(state[old + 1] or 0) == length then
    if ARGV[arg] ~= '' then
      local sum = (state[old] or 0) + ARGV[arg]
      set(name .. '.total', sum); set(name .. '.counted', length + #records)
      if leads then set(name .. '.lead', (state[old + 2] or 0) + ARGV[arg + 1]) end
      if name == encoding then total = sum end
    elseif length > 0 then
      behind = 1
    end
  end
end
redis.call('HSET', KEYS[1], unpack(changes))

local threshold, fixed = tonumber(ARGV[6]), tonumber(ARGV[7])
if state[7] == encoding then threshold, fixed = tonumber(state[8]), tonumber(state[9]) end
local over = (total >= 0 and total + fixed >= threshold) and 1 or 0
local live = length + #records - (state[17] or 0)
local held = bytes + (state[18] or 0)
local answer = {'ok', total, live, offset + length, over, behind, held}
redis.call('HSET', KEYS[3], ARGV[1],
  table.concat({total, live, offset + length, over, behind, held, now + ARGV[2]}, ':'))

-- Forget operations in one sweep when their number doubled: amortised one step per push.
local remembered = redis.call('HLEN', KEYS[3])
if remembered > 512 and remembered >= 2 * (tonumber(redis.call('HGET', KEYS[1], 'swept')) or 256) then
  local all = redis.call('HGETALL', KEYS[3])
  for i = 1, #all, 2 do
    if tonumber(string.match(all[i + 1], '(%d+)$') or 0) < now then
      redis.call('HDEL', KEYS[3], all[i])
      remembered = remembered - 1
    end
  end
  redis.call('HSET', KEYS[1], 'swept', math.max(256, remembered))
end
if length == 0 or archives or remembered == 1 or redis.call('PTTL', KEYS[1]) < ttl * 0.99 then
  for i = 1, #KEYS do redis.call('PEXPIRE', KEYS[i], ttl) end
end
return answer
