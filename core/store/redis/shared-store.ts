// The shared store of all gateways that use one Redis: secrets that the first of them creates, and maps of values with
// a time limit.
import { randomBytes } from 'node:crypto'
import type { MapBounds, SharedMap, SharedStore } from '../../plugin/shared-store.js'
import { RedisConnection, type RedisConnectionOptions } from './connection.js'
import { type Script, script } from './script.js'

const getOrSet = script(`
local kept = redis.call('GET', KEYS[1])
if kept then return kept end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
`)

/** Milliseconds since the epoch, by the clock of the server. */
const now = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`

/** KEYS: the values, and the time at which each ends. */
const getValues = script(`${now}
local values = {}
for i, name in ipairs(ARGV) do
  local ends = redis.call('ZSCORE', KEYS[2], name)
  values[i] = ends and tonumber(ends) > now and redis.call('HGET', KEYS[1], name)
end
return values
`)

/** ARGV: milliseconds, maximum number of values, then names and values. */
const setting = `
local ends = now + ARGV[1]
for i = 3, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  redis.call('ZADD', KEYS[2], ends, ARGV[i])
end
local over = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 100)
local excess = redis.call('ZCARD', KEYS[2]) - #over - ARGV[2]
if excess > 0 then over = redis.call('ZRANGE', KEYS[2], 0, #over + excess - 1) end
for _, name in ipairs(over) do
  redis.call('HDEL', KEYS[1], name)
  redis.call('ZREM', KEYS[2], name)
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[1])
`

const setValues = script(`${now}${setting}`)

/** ARGV as above, for one value. */
const addValue = script(`${now}
local known = redis.call('ZSCORE', KEYS[2], ARGV[3])
if known and tonumber(known) > now then return redis.call('HGET', KEYS[1], ARGV[3]) end
${setting}`)

/** ARGV as above, for one value, and then the value that it replaces. */
const replaceValue = script(`${now}
local known = redis.call('ZSCORE', KEYS[2], ARGV[3])
if not known or tonumber(known) <= now then return 0 end
if redis.call('HGET', KEYS[1], ARGV[3]) ~= table.remove(ARGV) then return 0 end
${setting}
return 1
`)

const deleteValue = script(`
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
`)

const MIN_SECRET = 32

export class RedisSharedStore implements SharedStore {
  #connection: RedisConnection
  #prefix: string
  #connecting: Promise<unknown> | undefined

  /** `prefix` begins every key. */
  constructor(options: RedisConnectionOptions, prefix: string) {
    this.#connection = new RedisConnection(options)
    this.#prefix = prefix
  }

  /** Rejects if Redis cannot be reached, or keeps something else under the key. */
  async secret(name: string): Promise<string> {
    const key = `${this.#prefix}secret:${name}`
    const kept = await this.#run(getOrSet, [key], [randomBytes(32).toString('base64')])
    if (typeof kept !== 'string' || kept.length < MIN_SECRET) throw new Error(`Redis: ${key} is not a secret`)
    return kept
  }

  map(name: string, { ttlMs, maxEntries }: MapBounds): SharedMap {
    // The braces put both keys on one node of a cluster.
    const keysOf = (group: string) =>
      ['values', 'ends'].map((part) => `${this.#prefix}{${name}:${group}}:${part}`)
    return {
      get: async (group, names) => readValues(await this.#run(getValues, keysOf(group), names), names.length),
      set: async (group, entries) => {
        await this.#run(setValues, keysOf(group), [ttlMs, maxEntries, ...entries.flat()])
      },
      add: async (group, key, value) => {
        const known = await this.#run(addValue, keysOf(group), [ttlMs, maxEntries, key, value])
        return typeof known === 'string' ? known : undefined
      },
      replace: async (group, key, before, value) => {
        const args = [ttlMs, maxEntries, key, value, before]
        return (await this.#run(replaceValue, keysOf(group), args)) === 1
      },
      delete: async (group, key) => {
        await this.#run(deleteValue, keysOf(group), [key])
      },
    }
  }

  close(): void {
    this.#connection.close()
  }

  /**
   * Waits for the first attempt to connect only. If it fails, the client connects in the background. Rejects with the
   * reason while there is no connection.
   */
  async #run(operation: Script, keys: readonly string[], args: readonly (string | number)[]) {
    this.#connecting ??= Promise.allSettled([this.#connection.connect(new AbortController().signal)])
    await this.#connecting
    const reason = this.#connection.ready()
    if (reason !== undefined) throw new Error(reason)
    return this.#connection.run(operation, keys, args)
  }
}

/** @throws {Error} for another response than one of `count` values */
function readValues(response: unknown, count: number): (string | undefined)[] {
  if (!Array.isArray(response) || response.length !== count)
    throw new Error('Redis: the response is not a list of values')
  return response.map((value: unknown) => (typeof value === 'string' ? value : undefined))
}
