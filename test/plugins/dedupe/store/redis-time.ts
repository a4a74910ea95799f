// Lets time pass for keys in Redis, as the clock of a server cannot be set.
import type { RedisServer } from '../../../support/redis.js'

/** Moves every entry `ms` into the past. */
export async function advanceRedis(node: RedisServer, namespace: string, ms: number): Promise<void> {
  if (ms === 0) return
  for (const key of (await node.send('KEYS', `${namespace}:*`)) as string[]) {
    const left = Number(await node.send('PTTL', key)) - ms
    if (left <= 0) await node.send('DEL', key)
    else {
      await node.send('HINCRBY', key, 'l', -ms)
      await node.send('PEXPIRE', key, left)
    }
  }
}
