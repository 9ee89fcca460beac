-- Finds the originals from one position to another: archived, live, or in the conversation cleared last.
-- KEYS  the session's eight keys
-- ARGV  1 position, of a run the first | 2 last position of a run, at most 999 later
-- returns {'gone'}, {'unknown'}, or for each that there is: position, 'archived', compressed record, or position, 'live', record
local state = redis.call('HMGET', KEYS[1], 'offset', 'cleared_offset')
if not state[1] then return {'gone'} end
local offset, found = tonumber(state[1]), {}
for position = tonumber(ARGV[1]), tonumber(ARGV[2] or ARGV[1]) do
  local name, old = string.format('%.0f', position), position < offset
  local blob, record
  if old then blob = redis.call('HGET', KEYS[8], name) else blob = redis.call('HGET', KEYS[4], name) end
  if not blob then
    if not old then
      record = redis.call('LINDEX', KEYS[2], position - offset)
    elseif state[2] and position >= tonumber(state[2]) then
      record = redis.call('LINDEX', KEYS[7], position - state[2])
    end
  end
  if blob or record then
    found[#found + 1] = position
    found[#found + 1] = blob and 'archived' or 'live'
    found[#found + 1] = blob or record
  end
end
if #found == 0 then return {'unknown'} end
return found
