-- Brings the history up to a caller's own list: appends its new messages, after a rewording or a branch if there is one.
-- KEYS  the session's eight keys
-- ARGV  1 ttl ms | 2 max session bytes | 3 version, 4 length that a rewording or branch was planned on
--       5 position from which a branch leaves the history, or empty | 6 position to reword, or empty
--       7 its head without time | 8 its fingerprint | 9 its JSON | 10 chain before the new messages
--       11 'same' when they were told from a list with gaps, which holds for that version alone
--       then per new message: head without time | fingerprint | JSON | chain behind it
--         | position of a tombstone whose original and replacement, or undone original, it takes over, or empty
-- returns {'ok', messages stored, bytes of the session with those that a clear moved aside,
--   1 when an encoding fell behind}, {'changed'} when the history is another one, {'full', bytes},
--   {'damaged'}, or {'newer', schema}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local state = redis.call('HMGET', KEYS[1], 'version', 'offset', 'length', 'bytes', 'chain', 'revision', 'tombs', 'schema',
  'cl100k_base.total', 'cl100k_base.counted', 'o200k_base.total', 'o200k_base.counted', 'changed_min', 'drafted', 'lead',
  'cleared_bytes')
if (tonumber(state[8]) or 1) > 1 then return {'newer', state[8]} end
for i, value in ipairs(state) do -- looked at before the first write, behind which nothing may fail
  local figure = i ~= 5 and i ~= 14 and not (i == 13 and value == '')
  if figure and value and not (#value <= 16 and string.match(value, '^%-?%d+$')) then return {'damaged'} end
end
if (state[1] or state[6]) and not (state[1] and state[2] and state[3] and state[6]) then return {'damaged'} end
if not state[1] and redis.call('EXISTS', KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]) > 0 then
  return {'damaged'} -- state and messages were evicted: what is left is not a new session's
end
local offset, length = tonumber(state[2] or 0), tonumber(state[3] or 0)
if redis.call('LLEN', KEYS[2]) ~= length then return {'damaged'} end
local branch, reword = tonumber(ARGV[5]), tonumber(ARGV[6])
local first, bytes, chain = 12, tonumber(state[4] or 0), state[5] or ''
local lost = chain == '' and length - (state[7] or 0) > tonumber(state[15] or 0)
if branch or reword or (lost and ARGV[10] == '') then
  if state[1] ~= ARGV[3] or state[3] ~= ARGV[4] then return {'changed'} end
elseif ARGV[11] == 'same' and state[1] ~= ARGV[3] then
  return {'changed'} -- what stands in the list may be replacements that its process did not know
elseif chain ~= ARGV[10] and tonumber(state[7] or 0) > 0 and state[1] ~= ARGV[3] then
  return {'changed'} -- what the list has behind the history may have left it replaced, unknown to its process
elseif chain ~= ARGV[10] then -- others may have stored some of the new messages already
  local place, heir, cut = 0, false, false
  for i = 15, #ARGV, 5 do
    heir = heir or ARGV[i + 1] ~= ''
    if ARGV[i] == chain then place, cut = i + 2, heir end
  end
  -- They may stand there as they were pushed, in front of the rest of a fold that nothing would carry.
  if place == 0 or (cut and place < #ARGV) then return {'changed'} end
  first = place
end
local added = (reword and #ARGV[9] or 0)
for i = first, #ARGV, 5 do added = added + #ARGV[i + 2] end
if added > 0 and bytes + added > tonumber(ARGV[2]) then return {'full', bytes + added} end

local counts, counted = {0, 0}, {}
for place = 1, 2 do counted[place] = tonumber(state[8 + 2 * place] or 0) == length end
local function count(record, sign)
  for place = 1, 2 do -- a record that this encoding did not count makes the next reader count anew
    local tokens = struct.unpack('>I4', record, 4 * place)
    if tokens == 4294967295 then counted[place] = false else counts[place] = counts[place] + sign * tokens end
  end
end
local function stamped(head, own, json, behind)
  return head .. struct.pack('>I8', now) .. own .. own .. behind .. json
end
local touched, tombs = {}, tonumber(state[7] or 0)
if reword then
  local old = redis.call('LINDEX', KEYS[2], reword - offset)
  local new = stamped(ARGV[7], ARGV[8], ARGV[9], string.sub(old, 36, 51))
  local flags, before = string.byte(new, 2), string.byte(old, 2)
  if math.floor(before / 4) % 2 == 1 and math.floor(flags / 4) % 2 == 0 then -- a pinned message stays pinned
    new = string.sub(new, 1, 1) .. string.char(flags + 4) .. string.sub(new, 3)
  end
  count(old, -1); count(new, 1)
  bytes = bytes - #old + 51
  redis.call('LSET', KEYS[2], reword - offset, new)
  touched[1] = reword
end
if branch then
  local left = redis.call('LRANGE', KEYS[2], branch - offset, -1)
  for i, record in ipairs(left) do
    local position, kind = branch + i - 1, string.byte(record, 3)
    local sound = #record >= 51 and string.byte(record, 1) == 1
    if not (sound and kind == 7) then
      local grave = string.char(1, 0, 7) .. string.rep('\0', 48)
      if sound then
        count(record, -1)
        grave = string.sub(record, 1, 2) .. string.sub(grave, 3, 11) .. string.sub(record, 12, 51)
        -- A replacement waits in its tombstone for a list that has its message again.
        if kind ~= 0 then grave = grave .. string.sub(record, 3, 11) .. string.sub(record, 52) end
      else
        counted = {}
      end
      bytes = bytes - #record + #grave
      if kind == 0 or not sound then
        bytes = bytes + #record - redis.call('HSTRLEN', KEYS[4], position)
        redis.call('HSET', KEYS[4], position, record)
      end
      redis.call('LSET', KEYS[2], position - offset, grave)
      touched[#touched + 1] = position
      tombs = tombs + 1
    end
  end
end
local stored = {}
for i = first, #ARGV, 5 do
  local record, source = stamped(ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]), tonumber(ARGV[i + 4])
  if source then
    local grave = redis.call('LINDEX', KEYS[2], source - offset)
    local original = redis.call('HGET', KEYS[4], source)
    if original and string.byte(grave, 3) == 7 and #grave > 60 then
      record = string.sub(grave, 1, 2) .. string.sub(grave, 52, 60) .. struct.pack('>I8', now)
        .. string.sub(grave, 20, 35) .. ARGV[i + 3] .. string.sub(grave, 61)
      redis.call('HSET', KEYS[4], offset + length + #stored, original)
      bytes = bytes + #original + #record - 51 - #ARGV[i + 2]
    elseif original and string.byte(grave, 3) == 7 and string.byte(original, 1) == 1 and string.byte(original, 3) == 0 then
      -- Undone or pinned before it left: it comes back as the original that it was, and kept.
      record = string.sub(original, 1, 11) .. struct.pack('>I8', now) .. string.sub(original, 20, 35) .. ARGV[i + 3]
        .. string.sub(original, 52)
      bytes = bytes + #record - 51 - #ARGV[i + 2]
    end
  end
  count(record, 1)
  stored[#stored + 1] = record
end
for i = 1, #stored, 1000 do
  redis.call('RPUSH', KEYS[2], unpack(stored, i, math.min(i + 999, #stored)))
end
bytes = bytes + added

local last = #ARGV >= 15 and ARGV[#ARGV - 1] or ARGV[10]
local changes = {'length', length + #stored, 'bytes', bytes, 'chain', last, 'tombs', tombs}
local function set(name, value)
  changes[#changes + 1] = name
  changes[#changes + 1] = value
end
local version, behind = state[1], 0
if not version then
  version = now
  set('schema', 1); set('revision', now); set('version', now); set('offset', 0); set('created', now)
end
for place, name in ipairs({'cl100k_base', 'o200k_base'}) do
  if counted[place] then
    set(name .. '.total', (state[7 + 2 * place] or 0) + counts[place]); set(name .. '.counted', length + #stored)
  elseif length > 0 and redis.call('HDEL', KEYS[1], name .. '.counted') == 1 then
    behind = 1
  end
end
if branch then -- what a compaction had archived ahead there is no draft any more, which the next claim would delete
  local drafted = ''
  for position in string.gmatch(state[14] or '', '%d+') do
    if tonumber(position) < branch then drafted = drafted .. ' ' .. position end
  end
  set('drafted', drafted)
end
if #touched > 0 then
  set('version', version + 1)
  if branch then set('revision', state[6] + 1) end
  -- A rewording makes no plan stale: users' words are never part of one.
  if branch and (not state[13] or state[13] == '' or tonumber(state[13]) > branch) then set('changed_min', branch) end
  redis.call('LPUSH', KEYS[6], #touched > 1000 and 'all' or table.concat(touched, ','))
  redis.call('LTRIM', KEYS[6], 0, 31)
end
redis.call('HSET', KEYS[1], unpack(changes))
if length == 0 or #touched > 0 or redis.call('PTTL', KEYS[1]) < ARGV[1] * 0.99 then
  for i = 1, #KEYS do redis.call('PEXPIRE', KEYS[i], ARGV[1]) end
end
return {'ok', #stored, bytes + (state[16] or 0), behind}
