// A secret that all gateways of one Redis share: the first that needs it makes it.
import { randomBytes } from 'node:crypto'
import { RedisConnection, type RedisConnectionOptions } from './connection.js'
import { script } from './script.js'

const getOrSet = script(`
local kept = redis.call('GET', KEYS[1])
if kept then return kept end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
`)

const MIN_LENGTH = 32

/** Rejects where Redis cannot be reached, or keeps something else under the key. */
export async function sharedSecret(options: RedisConnectionOptions, key: string): Promise<string> {
  const connection = new RedisConnection(options)
  try {
    await connection.connect(new AbortController().signal)
    const kept = await connection.run(getOrSet, [key], [randomBytes(32).toString('base64')])
    if (typeof kept !== 'string' || kept.length < MIN_LENGTH) throw new Error(`Redis: ${key} is no secret`)
    return kept
  } finally {
    connection.close()
  }
}
