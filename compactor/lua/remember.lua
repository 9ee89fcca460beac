-- Keeps an answer of the model for a repeat of its compaction, and enters what it cost.
-- KEYS  1 the session's state | 2 its summaries
-- ARGV  1 name of the request | 2 answer JSON, or empty: only the cost | 3 life ms | 4 tokens in | 5 tokens out
--       | 6 conversation that it is of: when the session began, and its offset
-- returns 'kept', or 'gone' (the conversation ended meanwhile, perhaps for good)
local state = redis.call('HMGET', KEYS[1], 'created', 'offset', 'schema')
if tonumber(state[3] or 1) > 1 then return 'gone' end -- a newer release has migrated it
if (state[1] or '') .. ':' .. (state[2] or '') ~= ARGV[6] then return 'gone' end
if ARGV[2] ~= '' and redis.call('HGET', KEYS[2], ARGV[1]) == ARGV[2] then return 'kept' end -- a repeat of this very call
redis.call('HINCRBY', KEYS[1], 'spent_in', ARGV[4])
redis.call('HINCRBY', KEYS[1], 'spent_out', ARGV[5])
if ARGV[2] ~= '' then
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
  local left = redis.call('PTTL', KEYS[1])
  redis.call('PEXPIRE', KEYS[2], left > 0 and math.min(left, ARGV[3]) or ARGV[3])
end
return 'kept'
