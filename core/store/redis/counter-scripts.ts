// The operations on counters as scripts, so that each is atomic, by the clock of the server. A bucket is the string "tokens
// instant"; another counter is what is used, and its holds as "id:amount:end". `key-value/counters.ts` does the same.

import { script } from './connection.js'
import { MAX_OWNED, state } from './key-value-scripts.js'

const counters = `
local words = '^(%S*) ?(%S*) ?(%S*) ?(%S*) ?(%S*) ?(%S*)$'
local stated, id, held, times, most = string.match(ARGV[2], words)
local instant, given = tonumber(stated) or now, tonumber(stated) and 172800000 or 0
if id == '' or id == '-' then id = nil end
held, times, most = tonumber(held) or 0, tonumber(times) or 1, tonumber(most) or ${MAX_OWNED}
-- Each is read once, and written by the commit.
local opened = {}
local function open(name)
  local counter = opened[name]
  if not counter then
    local text = redis.call('GET', at(name))
    counter = { before = text, text = text }
    opened[name] = counter
  end
  return counter
end
local function commit()
  local added, room = 0, roomOf('')
  for _, counter in pairs(opened) do
    if not counter.before and counter.text ~= '0' then added = added + 1 end
  end
  if added > 0 and not hasRoom(room, added, most) then
    error({ err = 'ERR the store has ' .. most .. ' counters of a space and takes no more of it' })
  end
  for name, counter in pairs(opened) do
    if counter.text == '0' then
      redis.call('DEL', at(name))
      if counter.before then redis.call('ZREM', room, name) end
    elseif counter.ttl then
      local ttl = math.min(1e12, math.ceil(counter.ttl))
      redis.call('SET', at(name), counter.text, 'PX', whole(ttl))
      -- The end of a window stays.
      if not counter.before then note(room, name, ttl)
      elseif string.sub(name, 1, 2) ~= 'w/' then redis.call('ZADD', room, 'XX', now + ttl, name) end
    else redis.call('SET', at(name), counter.text, 'KEEPTTL') end
  end
  if added > 0 then sweep(room) end
end
local function unreadable(what) error({ err = 'ERR the value at the key of a ' .. what .. ' cannot be read' }) end
local function window(key, ms, from)
  if not ms then return 'n/' .. key end
  local start = from + math.floor((instant - from) / ms) * ms
  return 'w/' .. whole(start) .. '/' .. key, start + ms
end
-- How long a window is kept: a day after its end, for calls that began in it.
local function late(ending) return ending - now + math.max(0, now - instant) + 86400000 + given end
local function usage(text)
  local used, holds, sum = tonumber(string.match(text or '0', '^%S+') or ''), {}, 0
  if not (used and used >= 0) then unreadable('count') end
  for name, amount, ends in string.gmatch(text or '', ' ([^: ]+):([^: ]+):([^: ]+)') do
    if tonumber(ends) > now then
      holds[#holds + 1] = { name, tonumber(amount), tonumber(ends) }
      sum = sum + tonumber(amount)
    end
  end
  return used, holds, used + sum
end
local function textOf(used, holds)
  local text = { whole(used) }
  for _, hold in ipairs(holds) do text[#text + 1] = hold[1] .. ':' .. whole(hold[2]) .. ':' .. whole(hold[3]) end
  text = table.concat(text, ' ')
  if #text > 65536 then error({ err = 'ERR a counter has too many holds' }) end
  return text
end
local function find(holds, name)
  for at, hold in ipairs(holds) do if hold[1] == name then return at, hold end end
end
`

/**
 * KEYS and ARGV[1] as for entries. ARGV: then the given instant, the hold or '-', its milliseconds, the batch, and the maximum of
 * counters ('' for none of them); for each limit 'b' for a bucket or 'w', its key, maximum, tokens per second or milliseconds of the window ('d' for a day, '-' without),
 * amount, and an instant at which a window begins. The response is '+' or '-', the state of the space, and for each limit, after a
 * ';', what is left, without a window the milliseconds until its reset, and after a '/', of a batch, how many times it was taken.
 */
export const takeCounters = script(`${state}${counters}
local uses = {}
local function batch(possible) return math.max(1, math.min(times, math.floor(possible / 10))) end
-- The rest afterwards, the rest if another limit refuses, the instant of the reset, and how many times it was taken.
local function tell(left, free, resetAt, taken)
  local reset = resetAt and ' ' .. whole(math.min(8.64e15, resetAt) - instant) or ''
  local batched = times > 1 and '/' .. whole(taken) or ''
  uses[#uses + 1] = {
    ['+'] = string.format('%.17g', math.max(0, left)) .. reset .. batched,
    ['-'] = string.format('%.17g', math.max(0, free)) .. reset,
  }
end
local function respond(status)
  local text = status .. head()
  for _, use in ipairs(uses) do text = text .. ';' .. use[status] end
  return text
end
local function takeTokens(key, max, rate, amount)
  local counter, tokens, since = open('b/' .. key), max, instant
  if counter.text then
    local left, from = string.match(counter.text, '^(%S+) (%S+)$')
    tokens, since = tonumber(left), tonumber(from)
    if not (tokens and since and tokens >= -1 and since == since) then unreadable('bucket') end
  end
  local from = math.max(instant, since)
  local available = math.min(max, tokens + (from - since) * rate / 1000)
  local function regained(missing) return math.min(8.64e15, from + math.ceil(missing * 1000 / rate)) end
  if available < amount - 1e-9 then
    tell(available, available, regained(amount - available), 0)
    return false
  end
  local taken = batch(available / amount)
  local left = available - amount * taken
  counter.text = string.format('%.17g %.17g', left, from)
  counter.ttl = regained(max - left) - instant + 1000 + given
  tell(left, available, regained(max - left), taken)
  return true
end
local function takeUse(key, max, ms, amount, from)
  local name, ending = window(key, ms, from)
  local counter = open(name)
  local used, holds, sum = usage(counter.text)
  local _, own = find(holds, id)
  local free, left, taken = max - sum, max - sum, 1
  local passes = own or amount <= free
  if passes and id then
    if own then own[3] = now + held
    else
      holds[#holds + 1] = { id, amount, now + held }
      left = free - amount
    end
  elseif passes then
    taken = batch(free / amount)
    left = free - amount * taken
    used = used + amount * taken
  end
  local first, last = instant + held, now
  for _, hold in ipairs(holds) do
    first, last = math.min(first, hold[3]), math.max(last, hold[3])
  end
  tell(left, free, not ending and first, taken)
  if passes then
    counter.text = textOf(used, holds)
    counter.ttl = math.max(last - now, ending and late(ending) or 0)
  end
  return passes
end
for i = 3, #ARGV do
  local kind, key, max, period, amount, from = string.match(ARGV[i], words)
  local take = kind == 'b' and takeTokens or takeUse
  period = period == 'd' and 86400000 or tonumber(period)
  local passes = take(key, tonumber(max), period, tonumber(amount) or 1, tonumber(from) or 0)
  if not passes then return respond('-') end
end
commit()
return respond('+')
`)

/**
 * ARGV: then the given instant, and the hold or '-'; for each counter its key, the amount, and the milliseconds of the window and
 * an instant at which it begins ('-' without). The response is '+', or '-' if a hold has ended, and the state of the space.
 */
export const settleCounters = script(`${state}${counters}
for i = 3, #ARGV do
  local key, amount, ms, from = string.match(ARGV[i], words)
  local name, ending = window(key, tonumber(ms), tonumber(from) or 0)
  local counter = open(name)
  local used, holds = usage(counter.text)
  if id then
    local place = find(holds, id)
    if not place then return '-' .. head() end
    table.remove(holds, place)
  end
  used = math.max(0, used + tonumber(amount))
  counter.text = textOf(used, holds)
  if not counter.before then counter.ttl = late(ending or now) end
end
commit()
return '+' .. head()
`)
