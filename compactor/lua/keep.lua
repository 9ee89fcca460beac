-- Ends a claim with a draft kept: a later send swaps it in.
-- KEYS  the session's eight keys
-- ARGV  1 owner | 2 last position of the plan | 3 outcome JSON | 4 count from which a send swaps it in
--       5 the draft: what the swap takes, each with its length before it
-- returns 'kept' (also for a repeat), 'stale', or 'gone'
local state = redis.call('HMGET', KEYS[1], 'revision', 'claim', 'owner', 'changed_min', 'schema', 'draft_owner', 'pins')
if not state[1] then return 'gone' end
if tonumber(state[5] or 1) > 1 then return 'stale' end -- a newer release has migrated it
if state[6] == ARGV[1] and state[2] ~= 'running' then return 'kept' end
if state[2] ~= 'running' or state[3] ~= ARGV[1] then return 'stale' end
if state[4] and state[4] ~= '' and tonumber(state[4]) <= tonumber(ARGV[2]) then return 'stale' end
-- What it cost stays with the session until something is swapped in.
redis.call('HSET', KEYS[1], 'claim', 'idle', 'attempts', 0, 'not_before', 0, 'rearm', ARGV[4], 'held', 'drafted',
  'last', ARGV[3], 'draft', ARGV[5], 'draft_owner', ARGV[1], 'draft_level', ARGV[4], 'draft_revision', state[1],
  'draft_pins', state[7] or '')
return 'kept'
