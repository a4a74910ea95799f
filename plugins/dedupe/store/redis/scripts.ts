// `entry.ts` in Lua: one script an operation, on one key, by the server's clock. An entry is a hash of p (phase), f
// (fingerprint), o (owner), l (lease until), d (lease in milliseconds) and, if the response is kept, a (in base64).
import { script } from '@svc/core/redis'

const entry = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local stored = redis.call('HMGET', KEYS[1], 'p', 'f', 'o', 'l', 'd')
local phase, fingerprint, owner = stored[1], stored[2], stored[3]
local untilMs, leaseMs = tonumber(stored[4] or ''), tonumber(stored[5] or '')
local known = phase == 'claimed' or phase == 'sent' or phase == 'completed' or phase == 'unknown'
if redis.call('EXISTS', KEYS[1]) == 1 and not (known and fingerprint and owner and untilMs and leaseMs) then
  return redis.error_reply('ERR the value at the key cannot be read')
end
local running = phase == 'claimed' or phase == 'sent'
local function put(phase, leaseMs, keepMs)
  redis.call('HSET', KEYS[1], 'p', phase, 'f', ARGV[1], 'o', ARGV[2], 'd', ARGV[3],
    'l', string.format('%.0f', now + leaseMs))
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', keepMs))
end
`

/** ARGV: fingerprint, owner, lease in milliseconds. Returns the state and, if it is kept, the response. */
export const claimKey = script(`${entry}
local lease = tonumber(ARGV[3])
local leased = phase and now < untilMs and untilMs - now < 2 * leaseMs
if not phase or (phase == 'claimed' and (owner == ARGV[2] or not leased)) then
  put('claimed', lease, lease)
  return { 'claimed' }
end
if fingerprint ~= ARGV[1] then return { 'reused' } end
if phase == 'completed' then
  local response = redis.call('HGET', KEYS[1], 'a')
  if response then return { 'completed', response } end
  return { 'completed' }
end
if phase == 'unknown' or not leased then return { 'unknown' } end
return { 'in_flight' }
`)

/** ARGV: fingerprint, owner, lease and life of an outcome in milliseconds. Returns 1 if the key is the owner's. */
export const markSent = script(`${entry}
if not running or owner ~= ARGV[2] then return 0 end
put('sent', tonumber(ARGV[3]), ARGV[3] + ARGV[4])
return 1
`)

/** ARGV as for `markSent`. */
export const renew = script(`${entry}
if not running or owner ~= ARGV[2] then return 0 end
put(phase, tonumber(ARGV[3]), phase == 'sent' and ARGV[3] + ARGV[4] or tonumber(ARGV[3]))
return 1
`)

/** ARGV: fingerprint, owner. */
export const release = script(`${entry}
if running and owner == ARGV[2] then redis.call('DEL', KEYS[1]) end
return 1
`)

/** ARGV as for `markSent`, then the phase, and the response if there is one. */
export const finish = script(`${entry}
if phase and owner ~= ARGV[2] then return 0 end
redis.call('DEL', KEYS[1])
put(ARGV[5], 0, tonumber(ARGV[4]))
if ARGV[6] then redis.call('HSET', KEYS[1], 'a', ARGV[6]) end
return 1
`)
