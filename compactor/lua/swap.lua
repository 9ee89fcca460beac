-- Replaces messages in place, if nothing at or before the plan's last position changed meanwhile.
-- KEYS  the session's eight keys
-- ARGV  1 owner, also the compaction's id | 2 last position of the plan | 3 outcome JSON | 4 bytes saved
--       5 re-arm level | 6 held reason | 7 number of encodings, then encoding, tokens saved of each
--       then per message: position | record
--       Of a draft that a worker kept: 1 empty | 2 'cold' when the provider's cache has run out | 3 rules of the send as JSON
-- returns 'applied' (also for a repeat), 'stale', or 'gone'; of a kept draft its outcome JSON, 'stale' or 'gone'
local state = redis.call('HMGET', KEYS[1], 'revision', 'offset', 'claim', 'owner', 'changed_min', 'applied', 'length', 'version', 'schema',
  'draft', 'draft_owner', 'draft_revision', 'pins', 'draft_pins')
if not state[1] then return 'gone' end
if tonumber(state[9] or 1) > 1 then return 'stale' end -- a newer release has migrated it
local args, kept = ARGV, ARGV[1] == ''
if kept then -- each of its arguments with its length before it, behind the owner; before them the outcome of a cold swap, and rules
  args = {state[11] or ''}
  local draft, place, given = state[10] or '', 1, {}
  while place + 3 <= #draft do
    local size, from = struct.unpack('>I4', draft, place)
    given[#given + 1] = string.sub(draft, from, from + size - 1)
    place = from + size
  end
  for i = 3, #given do args[i - 1] = given[i] end
  if ARGV[2] == 'cold' then args[3] = given[1] end
  local whole = place == #draft + 1 and tonumber(args[2]) and tonumber(args[4]) and tonumber(args[7])
  local void = not whole or state[3] ~= 'idle' or state[1] ~= state[12] or (state[13] or '') ~= (state[14] or '')
    or given[2] ~= ARGV[3]
  if not void then
    for i = 8 + 2 * args[7], #args, 2 do void = void or redis.call('HEXISTS', KEYS[4], args[i]) == 0 end
  end
  if void then -- the next send over the threshold has it drafted anew
    if (state[10] or '') ~= '' then redis.call('HSET', KEYS[1], 'draft', '', 'draft_level', '', 'rearm', 0, 'held', '') end
    return 'stale'
  end
end
if not kept and state[6] == ARGV[1] and not (state[3] == 'running' and state[4] == ARGV[1]) then return 'applied' end
if not kept and (state[3] ~= 'running' or state[4] ~= ARGV[1]) then return 'stale' end
if redis.call('LLEN', KEYS[2]) ~= tonumber(state[7]) then return 'stale' end
local last = tonumber(args[2])
if not kept and state[5] and state[5] ~= '' and tonumber(state[5]) <= last then return 'stale' end

local offset = tonumber(state[2])
local first = 8 + 2 * args[7]
local positions = {}
for i = first, #args, 2 do
  redis.call('LSET', KEYS[2], args[i] - offset, args[i + 1])
  positions[#positions + 1] = args[i]
end
local known = {}
for i = 8, first - 1, 2 do
  known[args[i]] = true
  redis.call('HINCRBY', KEYS[1], args[i] .. '.total', 0 - args[i + 1])
end
-- An encoding that the plan did not know is counted anew by its next reader.
for _, encoding in ipairs({'cl100k_base', 'o200k_base'}) do
  if not known[encoding] then redis.call('HDEL', KEYS[1], encoding .. '.total', encoding .. '.counted', encoding .. '.lead') end
end
redis.call('HINCRBY', KEYS[1], 'bytes', 0 - args[4])
redis.call('HSET', KEYS[1], 'revision', state[1] + 1, 'version', state[8] + 1, 'claim', 'idle', 'attempts', 0, 'not_before', 0,
  'rearm', args[5], 'held', args[6], 'drafted', '', 'applied', args[1], 'last', args[3],
  'spent_in', 0, 'spent_out', 0, 'draft', '', 'draft_level', '')
redis.call('HDEL', KEYS[1], 'shadow')
redis.call('LPUSH', KEYS[6], table.concat(positions, ','))
redis.call('LTRIM', KEYS[6], 0, 31)
redis.call('RPUSH', KEYS[5], args[3])
redis.call('LTRIM', KEYS[5], -1000, -1)
local left = redis.call('PTTL', KEYS[1])
if left > 0 then
  redis.call('PEXPIRE', KEYS[5], left)
  redis.call('PEXPIRE', KEYS[6], left)
end
return kept and args[3] or 'applied'
