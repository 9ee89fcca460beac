-- Judges one send: refreshes the session's life, takes the claim when due, names what changed.
-- KEYS  the session's eight keys
-- ARGV  1 operation, which becomes the claim's owner | 2 ttl ms | 3 encoding | 4 known version
--       5 known length | 6 mode: send, shadow (as send, but no kept draft is swapped in), force (nor there, and ignores
--       back-off and re-arm), look (judges nothing) | 7 judged JSON | 8 threshold | 9 fixed | 10 queue patience ms
--       11 max attempts | 12 owners whose claims earlier calls may have taken without publishing, or empty | 13 '=' and the chain
--       that the judgement is of, or empty: any | 14 history tokens to judge, or empty: the total
--       15 lease ms: a queued task that nobody began for as long is published again, then after twice as long, ...
--       16 key of the model | 17 offset, 18 slope to go by while the session learned none of it
--       19 window that is configured, in tokens | 20 ms that the provider's cache lives, or 0 | 21 'tail' to answer
--       the records behind the known length, up to 1,000 of them, or empty
-- returns {'none'} for an unknown session, {'damaged'}, {'newer', schema}, or
--   {'ok', version, offset, length, total or -1, lead, claim, claimed, held, owner,
--    'all' or 'delta', ms in the queue, chain, anchor of the model or empty, pinned phrases if the version is news,
--    'cold' or 'late' when a kept draft is to be swapped in before this send, else empty,
--    {record, ...} behind the known length if they are asked for and that is not 'all',
--    position, record, position, record, ...}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local encoding, ttl = ARGV[3], tonumber(ARGV[2])
local state = redis.call('HMGET', KEYS[1], 'version', 'offset', 'length', encoding .. '.total',
  encoding .. '.counted', 'lead', 'claim', 'owner', 'until', 'not_before',
  'rearm', 'held', 'attempts', 'drafted', 'queued_at', 'chain', 'schema',
  'published_at', 'requeued', 'anchor:' .. ARGV[16], 'pins', 'sent_at', 'draft_level',
  'judged', 'judged_encoding', 'judged_fixed', 'judged_threshold')
if not state[1] then
  local left = redis.call('EXISTS', KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8])
  return {left > 0 and 'damaged' or 'none'}
end
if (tonumber(state[17]) or 1) > 1 then return {'newer', state[17]} end
for _, i in ipairs({1, 2, 3, 4, 5, 6, 17}) do
  local needed = i <= 3
  if (needed or state[i]) and not string.match(state[i] or '', '^%-?%d+$') then return {'damaged'} end
end
local version, offset, length = tonumber(state[1]), tonumber(state[2]), tonumber(state[3])
if redis.call('LLEN', KEYS[2]) ~= length then return {'damaged'} end
local total = tonumber(state[4] or 0)
if tonumber(state[5] or 0) ~= length then total = -1 end

local claim, owner, held, claimed = state[7] or 'idle', state[8] or '', '', 0
local left = (tonumber(state[9]) or 0) - now
-- An end further ahead than any claim's (a retry waits ten minutes at most) is from before the server's clock was set back.
if left <= 0 or left > 2 * math.max(ARGV[10], ARGV[15]) + 600000 then claim = 'idle' end
local forced, chain = ARGV[6] == 'force', state[16] or ''
local judges = ARGV[6] ~= 'look' and (ARGV[13] == '' or ARGV[13] == '=' .. chain)
-- A caller may not have heard of the last swap yet; its list is never more than the whole.
local load = (ARGV[14] == '' and total or math.min(total, tonumber(ARGV[14]))) + ARGV[9]
-- What the provider is expected to count: offset + slope x count, of the session's anchor or of the prior.
-- The anchor's figures: slope, count, billed, the count and bill that the slope is measured from, limit.
local anchor = {string.match(state[20] or '', '^([0-9.]+) (%d+) (%d+) (%d+) (%d+) (%d+)$')}
local learned = true
for i = 1, 6 do
  anchor[i] = tonumber(anchor[i] or '')
  learned = learned and anchor[i] ~= nil and anchor[i] <= 1000000000
end
learned = learned and anchor[1] >= 0.5 and anchor[1] <= 2 and anchor[2] > 0
local slope = learned and anchor[1] or tonumber(ARGV[18])
local offset_tokens = learned and anchor[3] - slope * anchor[2] or tonumber(ARGV[17])
local threshold = tonumber(ARGV[8])
if learned and anchor[6] > 0 and anchor[6] < tonumber(ARGV[19]) then
  threshold = math.max(1, math.floor(threshold * anchor[6] / ARGV[19])) -- the provider named a smaller window
end
local expected = math.max(0, math.floor(offset_tokens + slope * load))
local changes = {}
local function set(name, value)
  changes[#changes + 1] = name
  changes[#changes + 1] = value
end
if judges then
  local least = math.max(1, math.ceil((threshold - offset_tokens) / slope)) -- the smallest count expected to reach it
  while math.floor(offset_tokens + slope * least) < threshold do least = least + 1 end
  while least > 1 and math.floor(offset_tokens + slope * (least - 1)) >= threshold do least = least - 1 end
  least = string.format('%d', least)
  -- A bot sends the same every turn: what stands there already is not written again.
  if state[24] ~= ARGV[7] or state[25] ~= encoding or state[26] ~= ARGV[9] or state[27] ~= least then
    set('judged', ARGV[7]); set('judged_encoding', encoding); set('judged_fixed', ARGV[9]); set('judged_threshold', least)
  end
end
-- After a longer pause than the provider's cache lives, the whole prompt is paid for anew whatever is cut.
local cold = judges and tonumber(ARGV[20]) > 0 and now - (tonumber(state[22]) or now) > tonumber(ARGV[20])
  and 2 * expected >= threshold
if judges and total >= 0 and tonumber(ARGV[20]) > 0 then set('sent_at', now) end
local draft, level = '', tonumber(state[23])
if ARGV[6] == 'send' and judges and level and claim == 'idle' and total >= 0 then
  draft = cold and 'cold' or load >= level and 'late' or ''
end
if claim == 'queued' and (owner == ARGV[1] or string.find(ARGV[12], owner, 1, true)) then
  claimed = 1
elseif claim == 'queued' and ARGV[6] ~= 'look' and now - (tonumber(state[18]) or now) >= ARGV[15] * 2 ^ (tonumber(state[19]) or 0) then
  -- Its worker died before it began, or the broker lost it; a second delivery of one task does no harm.
  claimed = 1
  set('published_at', now); set('requeued', (tonumber(state[19]) or 0) + 1)
elseif judges and draft == '' and claim == 'idle' and total >= 0 and (expected >= threshold or cold) then
  if not forced and (tonumber(state[13]) or 0) >= tonumber(ARGV[11]) then
    held = 'dead'
    set('held', held)
  elseif not forced and (now < (tonumber(state[10]) or 0) or load < (tonumber(state[11]) or 0)) then
    held = (state[12] and state[12] ~= '') and state[12] or 'backoff'
  else
    claim, owner, claimed = 'queued', ARGV[1], 1
    set('claim', claim); set('owner', owner); set('until', now + ARGV[10]); set('queued_at', now)
    set('published_at', now); set('requeued', 0)
    set('claimed', ARGV[7]); set('claimed_for', forced and 'force' or cold and 'cold' or ''); set('held', '')
    if forced then set('attempts', 0) end
    if level then
      set('draft', ''); set('draft_level', '')
    end
    local freed = 0
    for field in string.gmatch(state[14] or '', '%d+') do
      freed = freed + redis.call('HSTRLEN', KEYS[4], field)
      redis.call('HDEL', KEYS[4], field)
    end
    if freed > 0 then
      set('drafted', '')
      redis.call('HINCRBY', KEYS[1], 'bytes', -freed)
    end
  end
end
if #changes > 0 then redis.call('HSET', KEYS[1], unpack(changes)) end
if redis.call('PTTL', KEYS[1]) < ttl * 0.99 then
  for i = 1, #KEYS do redis.call('PEXPIRE', KEYS[i], ttl) end
end

local answer = {'ok', version, offset, length, total, tonumber(state[6] or 0),
  claim, claimed, held, owner, 'delta', (claim == 'queued' and claimed == 0) and now - (tonumber(state[15]) or now) or 0, chain,
  learned and state[20] or '', ARGV[4] ~= state[1] and state[21] or '', draft, {}}
local known_version, known_length = tonumber(ARGV[4]), tonumber(ARGV[5])
if ARGV[21] == 'tail' and length - known_length > 1000 then -- so much goes through no script
  answer[11] = 'all'
  return answer
elseif ARGV[21] == 'tail' and length > known_length then
  answer[17] = redis.call('LRANGE', KEYS[2], known_length, known_length + 999)
end
if known_version == version then return answer end
local log = redis.call('LRANGE', KEYS[6], 0, -1)
local behind = version - known_version
if behind < 0 or behind > #log then
  answer[11], answer[17] = 'all', {}
  return answer
end
local seen = {}
for i = 1, behind do
  if log[i] == 'all' then
    answer[11], answer[17] = 'all', {}
    return answer
  end
  for text in string.gmatch(log[i], '%d+') do
    local position = tonumber(text)
    if not seen[position] and position - offset < known_length then
      seen[position] = true
      answer[#answer + 1] = position
      answer[#answer + 1] = redis.call('LINDEX', KEYS[2], position - offset)
    end
  end
end
return answer
