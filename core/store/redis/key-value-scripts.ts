// The operations on keys and values as scripts, so that each is atomic, by the clock of the server. A value is the string
// "written version owner value" at the key of its entry, and ends with it. An ordered space also has its keys in a sorted set,
// in their order, and in another by their ends. Arguments and responses are packed, as each costs bytes by itself.
import { script } from './connection.js'

/** Maximum number of counters of a space, or of entries of an owner in a space with `maxOwned`, unless it states another one. */
export const MAX_OWNED = 100_000

/**
 * KEYS[1] is the name of the space, with the hash tag in it. ARGV[1] is the epoch that the caller knows ('-' if the space is not
 * tracked; '' for none). The state of a space is the time, and for a tracked one ' epoch:count', without the epoch if the caller
 * knows it, and ' began' if the space was lost.
 */
export const state = `
local S, known = KEYS[1], ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function at(key) return S .. ':' .. key end
local function whole(number) return string.format('%.0f', number) end
local epoch, began, lost, count
if known ~= '-' then
  local meta = redis.call('HMGET', S .. '#space', 'epoch', 'began', 'lost', 'count')
  epoch, began, lost, count = meta[1], meta[2], meta[3], meta[4] or '0'
  if not epoch then
    epoch, began, lost = string.sub(redis.sha1hex(S .. time[1] .. ' ' .. time[2]), 1, 12), whole(now), known ~= '' and '1' or '0'
    redis.call('HSET', S .. '#space', 'epoch', epoch, 'began', began, 'lost', lost)
  elseif known ~= '' and known ~= epoch and lost ~= '1' then
    lost = '1'
    redis.call('HSET', S .. '#space', 'lost', lost)
  end
end
-- Names by their ends: of the entries of an ordered space or of an owner, or of counters.
local function roomOf(owner) return S .. '#room' .. (owner == '' and '' or '/' .. owner) end
local function hasRoom(room, added, most) return redis.call('ZCOUNT', room, '(' .. whole(now), '+inf') + added <= most end
-- A set that ends a day later is prolonged once a day.
local function prolong(set, ttl, later)
  if redis.call('PTTL', set) < ttl then redis.call('PEXPIRE', set, whole(ttl + later)) end
end
local function note(room, name, ttl)
  redis.call('ZADD', room, now + ttl, name)
  prolong(room, ttl, 86400000)
end
-- To be called last: once a script has removed something, a full server lets it write.
local function sweep(room) redis.call('ZREMRANGEBYSCORE', room, '-inf', now) end
local function head()
  if not epoch then return whole(now) end
  local revision = (epoch == known and '' or epoch) .. ':' .. count
  return whole(now) .. ' ' .. revision .. (lost == '1' and ' ' .. began or '')
end
`

/** Entries in responses: the key if the caller does not know it, the value, and the milliseconds to its end. */
const entries = `
local function get(key)
  local raw = redis.call('GET', at(key))
  if raw and not string.find(raw, '^%d+ %S+ %S* ') then error({ err = 'ERR the value at the key of an entry cannot be read' }) end
  return raw
end
local function target(raw) return string.match(raw, '^%S+ %S+ %S* (.*)$') end
local reply = {}
local function tell(name, key, raw)
  reply[#reply + 1] = name
  reply[#reply + 1] = raw
  reply[#reply + 1] = raw and redis.call('PTTL', at(key)) or 0
end
local function respond(status)
  table.insert(reply, 1, status .. head())
  return reply
end
local function drop(key, room, isOrdered)
  redis.call('DEL', at(key))
  if room then redis.call('ZREM', room, key) end
  if isOrdered then redis.call('ZREM', S .. '#keys', key) end
end
`

/** ARGV: then 1 to follow values, and the keys. The response begins with '+' and the state. */
export const getEntries = script(`${state}${entries}
for i = 3, #ARGV do
  local key, name = ARGV[i], ''
  local raw = get(key)
  if raw and ARGV[2] == '1' then
    key = target(raw)
    name, raw = key, get(key)
  end
  tell(name, key, raw)
end
return respond('+')
`)

/**
 * ARGV: then of an ordered space its maximum number of entries, '!' for one that is watched, '~' for one with a maximum for each owner
 * and that maximum ('' for the default), and a bound: the entries and their sum that may be below a prefix ('' without). For each write "key expected version owner milliseconds" and the value: the version that it expects ('' for none,
 * '*' for any), the new one ('' to delete), and the time until its end ('' without). The response is '+' and the state, or begins
 * with '-' or, if the bound was reached, '!'.
 */
export const commitWrites = script(`${state}${entries}
local most, watched, owned, boundEntries, boundTotal, prefix =
  string.match(ARGV[2], '^(%d*)(!?)(~?%d*) ?(%S*) ?(%S*) ?(%S*)$')
local maxEntries = tonumber(most)
local maxOwned = owned ~= '' and (tonumber(string.sub(owned, 2)) or ${MAX_OWNED})
local writes, done, written, added, longest = {}, true, {}, {}, 0
for i = 3, #ARGV, 2 do
  local key, expected, version, owner, ttl = string.match(ARGV[i], '^(%S+) (%S*) (%S*) (%S*) (%S*)$')
  local write = { key = key, version = version, owner = owner, ttl = ttl, value = ARGV[i + 1] }
  writes[#writes + 1] = write
  if expected ~= '*' or maxOwned then
    local raw = get(key)
    if expected ~= '*' and (raw and string.match(raw, '^%S+ (%S+) ') or '') ~= expected then done = false end
    if not raw and version ~= '' then added[owner] = (added[owner] or 0) + 1 end
  end
end
local function refuse(status)
  for _, write in ipairs(writes) do tell('', write.key, get(write.key)) end
  return respond(status)
end
if not done then return refuse('-') end
if prefix ~= '' then
  local count, total, new = 0, 0, 0
  for _, write in ipairs(writes) do
    if string.sub(write.key, 1, #prefix) == prefix and write.version ~= '' then
      written[write.key] = true
      count = count + 1
      new = new + tonumber(write.value)
    end
  end
  for _, key in ipairs(redis.call('ZRANGEBYLEX', S .. '#keys', '(' .. prefix, '(' .. prefix .. '\\127')) do
    local raw = not written[key] and get(key)
    if raw then
      count = count + 1
      total = total + tonumber(target(raw))
    end
  end
  if count > tonumber(boundEntries) or (total > 0 and total + new > tonumber(boundTotal)) then return refuse('!') end
end
if maxOwned then
  for owner, count in pairs(added) do
    if not hasRoom(roomOf(owner), count, maxOwned) then return refuse('!') end
  end
end
local function roomFor(owner) return maxEntries and roomOf('') or maxOwned and roomOf(owner) end
for _, write in ipairs(writes) do
  local key, ttl, room = write.key, tonumber(write.ttl), roomFor(write.owner)
  if write.version == '' then drop(key, room, maxEntries)
  else
    local raw = whole(now) .. ' ' .. write.version .. ' ' .. write.owner .. ' ' .. write.value
    if ttl then redis.call('SET', at(key), raw, 'PX', write.ttl) else redis.call('SET', at(key), raw) end
    ttl = ttl or 1e13
    if maxEntries then
      redis.call('ZADD', S .. '#keys', 0, key)
      redis.call('ZADD', room, now + ttl, key)
      longest = math.max(longest, ttl)
    elseif room then note(room, key, ttl) end
  end
end
if maxEntries then
  local room = roomOf('')
  for _, ended in ipairs(redis.call('ZRANGEBYSCORE', room, '-inf', now, 'LIMIT', 0, 16)) do drop(ended, room, true) end
  local excess = redis.call('ZCARD', room) - maxEntries
  for _, first in ipairs(excess > 0 and redis.call('ZRANGE', room, 0, excess - 1) or {}) do drop(first, room, true) end
  for _, set in ipairs({ room, S .. '#keys' }) do prolong(set, longest, 0) end
elseif maxOwned then
  for owner in pairs(added) do sweep(roomOf(owner)) end
end
if watched == '!' then
  if epoch then count = whole(redis.call('HINCRBY', S .. '#space', 'count', 1)) end
  -- A user who may not publish has no notices.
  redis.pcall('PUBLISH', S, '')
end
return '+' .. head()
`)

/**
 * ARGV: then 1 to follow values, the first and last place of ZRANGEBYLEX in the order of the scan, 1 for the reverse order, the
 * limit, and the revision that the caller has: if it is still that, the response is '=' and the state. A key without an entry is
 * removed, as a shorter page would end a list.
 */
export const scanEntries = script(`${state}${entries}
local follows, first, last, reverse, limit = ARGV[2] == '1', ARGV[3], ARGV[4], ARGV[5] == '1', tonumber(ARGV[6])
if epoch and ARGV[7] == epoch .. ':' .. count then return '=' .. head() end
local found = 0
while found < limit do
  local wanted = limit - found
  local keys = redis.call(reverse and 'ZREVRANGEBYLEX' or 'ZRANGEBYLEX', S .. '#keys', first, last, 'LIMIT', 0, wanted)
  for _, key in ipairs(keys) do
    local raw = get(key)
    local entry = key
    if not raw then drop(key, roomOf(''), true)
    elseif follows then
      entry = target(raw)
      raw = get(entry)
    end
    if raw then
      tell(entry, entry, raw)
      found = found + 1
    end
  end
  if #keys < wanted then break end
  first = '(' .. keys[#keys]
end
return respond('+')
`)
