// The operations on keys and values as scripts, so that each is atomic, by the clock of the server. A value is the string
// "written version owner value" at the key of its entry, and ends with it. An ordered space also has its keys in a sorted set,
// in their order, and in another by their ends.
import { script } from './script.js'

/**
 * KEYS[1] is the name of the space, with the hash tag in it. ARGV: the epoch that the caller knows ('-' if the space is not
 * tracked; '' for none). The response begins with the time, the revision, and when the space was lost.
 */
const state = `
local S, known = KEYS[1], ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function at(key) return S .. ':' .. key end
local function whole(number) return string.format('%.0f', number) end
local function get(key)
  local raw = redis.call('GET', at(key))
  if raw and not string.find(raw, '^%d+ %S+ %S* ') then error({ err = 'ERR the value at the key of an entry cannot be read' }) end
  return raw
end
local function target(raw) return string.match(raw, '^%S+ %S+ %S* (.*)$') end
local reply = { whole(now), '', '', '' }
local function tell(key, raw)
  reply[#reply + 1] = key
  reply[#reply + 1] = raw
  reply[#reply + 1] = raw and redis.call('PTTL', at(key)) or 0
end
local function drop(key)
  redis.call('DEL', at(key))
  redis.call('ZREM', S .. '#keys', key)
  redis.call('ZREM', S .. '#ends', key)
end
if known ~= '-' then
  local meta = redis.call('HMGET', S .. '#space', 'epoch', 'began', 'lost', 'count')
  local epoch, began, lost = meta[1], meta[2], meta[3]
  if not epoch then
    epoch, began, lost = string.sub(redis.sha1hex(S .. time[1] .. ' ' .. time[2]), 1, 12), whole(now), known ~= '' and '1' or '0'
    redis.call('HSET', S .. '#space', 'epoch', epoch, 'began', began, 'lost', lost)
  elseif known ~= '' and known ~= epoch and lost ~= '1' then
    lost = '1'
    redis.call('HSET', S .. '#space', 'lost', lost)
  end
  reply[2] = epoch .. ':' .. (meta[4] or '0')
  if lost == '1' then reply[3] = began end
end
`

/** ARGV: then 1 to follow values, and the keys. */
export const getEntries = script(`${state}
for i = 3, #ARGV do
  local raw = get(ARGV[i])
  local key = ARGV[i]
  if raw and ARGV[2] == '1' then
    key = target(raw)
    raw = get(key)
  end
  tell(key, raw)
end
return reply
`)

/**
 * ARGV: then 1 if the space is ordered, its maximum number of entries, and for each write the key, the version that it expects
 * ('' for none, '*' for any), the new version ('' to delete), the owner, the milliseconds ('' without an end), and the value.
 * Before the writes: a prefix, and the entries and their sum that may be below it ('' for no bound).
 */
export const commitWrites = script(`${state}
local ordered, maxEntries, prefix = ARGV[2] == '1', tonumber(ARGV[3]), ARGV[4]
local first = 7
local done, written = true, {}
for i = first, #ARGV, 6 do
  local raw = ARGV[i + 1] ~= '*' and get(ARGV[i])
  local version = raw and string.match(raw, '^%S+ (%S+) ') or ''
  if ARGV[i + 1] ~= '*' and version ~= ARGV[i + 1] then done = false end
end
local function refuse()
  for i = first, #ARGV, 6 do tell(ARGV[i], get(ARGV[i])) end
  return reply
end
if not done then return refuse() end
if prefix ~= '' then
  local count, total, new = 0, 0, 0
  for i = first, #ARGV, 6 do
    if string.sub(ARGV[i], 1, #prefix) == prefix and ARGV[i + 2] ~= '' then
      written[ARGV[i]] = true
      count = count + 1
      new = new + tonumber(ARGV[i + 5])
    end
  end
  for _, key in ipairs(redis.call('ZRANGEBYLEX', S .. '#keys', '(' .. prefix, '(' .. prefix .. '\\127')) do
    local raw = not written[key] and get(key)
    if raw then
      count = count + 1
      total = total + tonumber(target(raw))
    end
  end
  if count > tonumber(ARGV[5]) or (total > 0 and total + new > tonumber(ARGV[6])) then
    reply[4] = 'full'
    return refuse()
  end
end
for i = first, #ARGV, 6 do
  local key, version, ttl = ARGV[i], ARGV[i + 2], ARGV[i + 4]
  if version == '' then
    drop(key)
  else
    local raw = whole(now) .. ' ' .. version .. ' ' .. ARGV[i + 3] .. ' ' .. ARGV[i + 5]
    if ttl == '' then redis.call('SET', at(key), raw) else redis.call('SET', at(key), raw, 'PX', ttl) end
    if ordered then
      redis.call('ZADD', S .. '#keys', 0, key)
      redis.call('ZADD', S .. '#ends', ttl == '' and '+inf' or now + ttl, key)
    end
  end
end
if ordered then
  for _, key in ipairs(redis.call('ZRANGEBYSCORE', S .. '#ends', '-inf', now, 'LIMIT', 0, 16)) do drop(key) end
  local excess = redis.call('ZCARD', S .. '#ends') - maxEntries
  if excess > 0 then
    for _, key in ipairs(redis.call('ZRANGE', S .. '#ends', 0, excess - 1)) do drop(key) end
  end
  local last = redis.call('ZRANGE', S .. '#ends', -1, -1, 'WITHSCORES')[2]
  for _, index in ipairs({ S .. '#keys', S .. '#ends' }) do
    if last == 'inf' then redis.call('PERSIST', index)
    elseif last then redis.call('PEXPIREAT', index, whole(tonumber(last))) end
  end
end
if known ~= '-' then
  local epoch = string.match(reply[2], '^[^:]+')
  reply[2] = epoch .. ':' .. whole(redis.call('HINCRBY', S .. '#space', 'count', 1))
end
reply[4] = '1'
return reply
`)

/**
 * ARGV: then 1 to follow values, the first and last place of ZRANGEBYLEX in the order of the scan, 1 for the reverse order, the
 * limit, and the revision that the caller has. A key without an entry is removed, as a shorter page would end a list.
 */
export const scanEntries = script(`${state}
local follows, first, last, reverse, limit = ARGV[2] == '1', ARGV[3], ARGV[4], ARGV[5] == '1', tonumber(ARGV[6])
if ARGV[7] ~= '' and ARGV[7] == reply[2] then
  reply[4] = 'same'
  return reply
end
local found = 0
while found < limit do
  local wanted = limit - found
  local keys = redis.call(reverse and 'ZREVRANGEBYLEX' or 'ZRANGEBYLEX', S .. '#keys', first, last, 'LIMIT', 0, wanted)
  for _, key in ipairs(keys) do
    local raw = get(key)
    local entry = key
    if raw and follows then
      entry = target(raw)
      raw = get(entry)
    end
    if raw then
      tell(entry, raw)
      found = found + 1
    else
      drop(key)
    end
  end
  if #keys < wanted then break end
  first = '(' .. keys[#keys]
end
return reply
`)
