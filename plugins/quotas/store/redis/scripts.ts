// Atomic scripts. Without `now` the server's clock is used, which all gateways share. A batch (for leases) takes at most a
// tenth of the remaining calls, so that the last ones are taken one by one.
import { script } from '@svc/core/redis'

const clock = `
local function instant(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
`

/**
 * Counts a call against its limits, up to the first that refuses. KEYS: of each limit. ARGV: now, batch, then for each
 * limit its rate per second and size, or the calls of a day and ''. Returns a text of three numbers for each: tokens left
 * or the count, when the bucket is full or the day ends, and how many were taken; 0 if it refuses. Text, as Redis
 * truncates the fractions of numbers.
 *
 * A bucket is the string "tokens instant", and expires when it is full again: then it equals a new one. Counts are a hash
 * of days since the epoch: today, and its neighbours for calls about midnight.
 */
export const countLimits = script(`${clock}
local now, want = instant(ARGV[1]), tonumber(ARGV[2])
local function batch(left)
  return math.max(1, math.min(want, math.floor(left / 10)))
end
local function take(key, rate, size)
  local tokens, at = size, now
  local stored = redis.call('GET', key)
  if stored then
    local left, since = string.match(stored, '^(%S+) (%S+)$')
    tokens, at = tonumber(left), tonumber(since)
    if not (tokens and at and tokens >= -1 and at == at) then
      return redis.error_reply('ERR the value at the key of a bucket cannot be read')
    end
  end
  local from = math.max(now, at)
  local available = math.min(size, tokens + (from - at) * rate / 1000)
  local function refilled(missing)
    return math.min(8.64e15, from + math.ceil(missing * 1000 / rate))
  end
  if available < 1 - 1e-9 then return available - 1, refilled(1 - available), 0 end
  local taken = batch(available)
  local left = available - taken
  local full = refilled(size - left)
  -- A given time may differ from the server's: such a bucket is kept longer.
  local keep = math.min(1e12, full - now + (ARGV[1] == '' and 1000 or 172800000))
  redis.call('SET', key, string.format('%.17g %.17g', left, from), 'PX', string.format('%.0f', keep))
  return math.max(0, left), full, taken
end
local function count(key, limit)
  local day = math.floor(now / 86400000)
  local field = string.format('%.0f', day)
  local resetAt = (day + 1) * 86400000
  local stored = redis.call('HGET', key, field)
  local count = stored and tonumber(stored) or 0
  if stored and not (count >= 1) then
    return redis.error_reply('ERR the value at the key of a count cannot be read')
  end
  if count + 1 > limit then return count + 1, resetAt, 0 end
  if not stored then
    for _, other in ipairs(redis.call('HKEYS', key)) do
      local number = tonumber(other)
      if not number or math.abs(number - day) > 1 then redis.call('HDEL', key, other) end
    end
  end
  local taken = batch(limit - count)
  redis.call('HINCRBY', key, field, taken)
  if not stored then redis.call('PEXPIRE', key, 259200000) end
  return count + taken, resetAt, taken
end
local uses = {}
for i, key in ipairs(KEYS) do
  local limit, size = tonumber(ARGV[2 * i + 1]), tonumber(ARGV[2 * i + 2])
  local value, resetAt, taken
  if size then value, resetAt, taken = take(key, limit, size) else value, resetAt, taken = count(key, limit) end
  if type(value) == 'table' then return value end
  uses[i] = string.format('%.17g %.0f %.0f', value, resetAt, taken)
  if taken == 0 then break end
end
return table.concat(uses, ' ')
`)

/** ARGV: now, number of calls. */
export const refundDaily = script(`${clock}
local field = string.format('%.0f', math.floor(instant(ARGV[1]) / 86400000))
local count = tonumber(redis.call('HGET', KEYS[1], field) or 0)
local back = math.min(count or 0, tonumber(ARGV[2]))
if back < 1 then return 0 end
if back == count then redis.call('HDEL', KEYS[1], field)
else redis.call('HINCRBY', KEYS[1], field, -back) end
return back
`)
