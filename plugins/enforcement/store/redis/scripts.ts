// One script an operation, so that it is atomic. All keys of a prefix lie on one node of a cluster: the entries, their
// inputs, the newest of each fingerprint, and the indexes: of pending entries, and of all by age and by time of deletion.
import { script } from '@svc/core/redis'

/** KEYS[1] is the prefix, with the hash tag in it. An entry is a hash: version, bookkeeping, JSON. */
const shared = `
local P = KEYS[1]
local function key(kind, name) return P .. ':' .. kind .. ':' .. name end
local function json(id) return redis.call('HGET', key('entry', id), 'json') end
local function newest(fingerprint)
  local id = redis.call('GET', key('newest', fingerprint))
  if id and redis.call('EXISTS', key('entry', id)) == 1 then return id end
  return ''
end
local function put(id, fingerprint, principal, pending, created, wake, due, forget, version, text)
  redis.call('HSET', key('entry', id), 'version', version, 'fingerprint', fingerprint, 'principal', principal, 'json', text)
  redis.call('ZADD', P .. ':age', created, id)
  redis.call('ZADD', P .. ':forget', forget, id)
  if pending == '1' then
    redis.call('ZADD', P .. ':wake', wake, id)
    redis.call('ZADD', P .. ':open', created, id)
    redis.call('ZADD', key('pending', principal), due, id)
  else
    redis.call('ZREM', P .. ':wake', id)
    redis.call('ZREM', P .. ':open', id)
    redis.call('ZREM', key('pending', principal), id)
  end
end
local function drop(id)
  local known = redis.call('HMGET', key('entry', id), 'fingerprint', 'principal')
  redis.call('DEL', key('entry', id), key('input', id))
  redis.call('ZREM', P .. ':age', id)
  redis.call('ZREM', P .. ':forget', id)
  redis.call('ZREM', P .. ':wake', id)
  redis.call('ZREM', P .. ':open', id)
  if not known[1] then return end
  redis.call('ZREM', key('pending', known[2]), id)
  if redis.call('GET', key('newest', known[1])) == id then redis.call('DEL', key('newest', known[1])) end
end
local function forget(now)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', P .. ':forget', '-inf', now, 'LIMIT', 0, 4)) do drop(id) end
end
local function texts(ids)
  local found = {}
  for _, id in ipairs(ids) do
    local text = json(id)
    if text then found[#found + 1] = text end
  end
  return found
end
`

/**
 * ARGV: the entry, the id that it replaces (empty: none), the limit of pending entries, now, the limit of input bytes,
 * the input.
 */
export const openEntry = script(`${shared}
local now = ARGV[13]
forget(now)
if redis.call('EXISTS', key('entry', ARGV[1])) == 1 or newest(ARGV[2]) ~= ARGV[11] then return 'raced' end
if ARGV[4] == '1' then
  local pending = redis.call('ZRANGEBYSCORE', key('pending', ARGV[3]), '(' .. now, '+inf')
  if #pending >= tonumber(ARGV[12]) then return 'full' end
  local used = 0
  for _, id in ipairs(pending) do used = used + redis.call('STRLEN', key('input', id)) end
  if used > 0 and used + #ARGV[15] > tonumber(ARGV[14]) then return 'full' end
end
put(unpack(ARGV, 1, 10))
if ARGV[15] ~= '' then redis.call('SET', key('input', ARGV[1]), ARGV[15]) end
redis.call('SET', key('newest', ARGV[2]), ARGV[1])
return 'opened'
`)

/** ARGV: id. */
export const getEntry = script(`${shared}
return json(ARGV[1])
`)

/** ARGV: id. */
export const getInput = script(`${shared}
return redis.call('GET', key('input', ARGV[1]))
`)

/** ARGV: id. */
export const removeInputOf = script(`${shared}
return redis.call('DEL', key('input', ARGV[1]))
`)

/** ARGV: fingerprint. */
export const latestEntry = script(`${shared}
return json(newest(ARGV[1]))
`)

/** ARGV: the entry. */
export const replaceEntry = script(`${shared}
if tonumber(redis.call('HGET', key('entry', ARGV[1]), 'version')) ~= tonumber(ARGV[9]) - 1 then return 0 end
put(unpack(ARGV, 1, 10))
return 1
`)

/** ARGV: id, version. */
export const removeEntry = script(`${shared}
if redis.call('HGET', key('entry', ARGV[1]), 'version') ~= ARGV[2] then return 0 end
drop(ARGV[1])
return 1
`)

/** ARGV: now, limit. */
export const dueEntries = script(`${shared}
forget(ARGV[1])
return texts(redis.call('ZRANGEBYSCORE', P .. ':wake', '-inf', ARGV[1], 'LIMIT', 0, ARGV[2]))
`)

/** ARGV: limit, id and age of the entry before the page (empty: from the first on), the index, `newest` or `oldest`. */
export const pageOfEntries = script(`${shared}
local index = P .. ':' .. ARGV[4]
local isNewest = ARGV[5] == 'newest'
local first = 0
if ARGV[2] ~= '' then
  local rank = redis.call(isNewest and 'ZREVRANK' or 'ZRANK', index, ARGV[2])
  if rank then
    first = rank + 1
  else
    -- It has left the index: those that were before it are counted.
    local newer, older = '(' .. ARGV[3], '(' .. ARGV[3]
    if isNewest then older = '+inf' else newer = '-inf' end
    first = redis.call('ZCOUNT', index, newer, older)
    for _, id in ipairs(redis.call('ZRANGEBYSCORE', index, ARGV[3], ARGV[3])) do
      if (id > ARGV[2]) == isNewest then first = first + 1 end
    end
  end
end
while true do
  local ids = redis.call(isNewest and 'ZREVRANGE' or 'ZRANGE', index, first, first + ARGV[1] - 1)
  local found = texts(ids)
  if #found == #ids then return found end
  -- A gateway of another version has deleted entries and not their places in this index: a shorter page would end the list.
  for _, id in ipairs(ids) do
    if not json(id) then redis.call('ZREM', index, id) end
  end
end
`)
