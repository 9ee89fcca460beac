-- Keeps what a session learned of one model, if nobody learned something else meanwhile; of four models at most.
-- KEYS  the session's eight keys
-- ARGV  1 key of the model | 2 the anchor that this one was made from, or empty | 3 the anchor
-- returns {'kept'}, {'changed', the anchor that stands now}, or {'gone'} (no such session, or none that can be read)
local state = redis.call('HMGET', KEYS[1], 'revision', 'schema', 'anchors', 'anchor:' .. ARGV[1], 'length')
if not state[1] or (tonumber(state[2]) or 1) > 1 then return {'gone'} end
if redis.call('LLEN', KEYS[2]) ~= tonumber(state[5]) then return {'gone'} end
local held = string.match(state[4] or '', '^[0-9. ]+$') or '' -- what was garbled from outside is none
if held ~= ARGV[2] and held ~= ARGV[3] then return {'changed', held} end
local kept = {}
for model in string.gmatch(state[3] or '', '%x+') do
  if model ~= ARGV[1] then kept[#kept + 1] = model end
end
kept[#kept + 1] = ARGV[1]
while #kept > 4 do redis.call('HDEL', KEYS[1], 'anchor:' .. table.remove(kept, 1)) end
redis.call('HSET', KEYS[1], 'anchor:' .. ARGV[1], ARGV[3], 'anchors', table.concat(kept, ' '))
return {'kept'}
