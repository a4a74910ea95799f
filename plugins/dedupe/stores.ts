// Which store keeps the keys: what `tokens.DedupeStore` is bound to, else Redis where the policy gives its address,
// else the disk.
import { resolve } from 'node:path'
import { type Clock, type DedupeStore, type PluginContext, resolveOptional, tokens } from '@svc/core'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { Claims } from './claims.js'
import type { DedupeConfig } from './config.js'
import type { ClaimsSource } from './stage.js'

interface Choice {
  readonly name: string
  /** Holds all that configures the store. */
  readonly key: string
  /** Imports what makes it; what a policy does not use is not imported. */
  prepare(): Promise<() => DedupeStore>
  /** What a user made, a user closes: it may serve more than this gateway. */
  readonly isUsers?: true
}

/** The claims with the store that the policy asks for; both outlive a reload. */
export function claimsSource(config: DedupeConfig, context: PluginContext, clock: Clock): ClaimsSource {
  const choice = choose(config, context, clock)
  const options = {
    timeoutMs: config.timeoutMs,
    leaseMs: config.leaseSec * 1000,
    clock,
    logger: resolveOptional(context.container, tokens.Logger),
    meter: resolveOptional(context.container, tokens.Meter),
  }
  return {
    name: choice.name,
    async open(signal) {
      const make = await choice.prepare()
      const key = `dedupe:${choice.key} ${options.timeoutMs} ${options.leaseMs}`
      const lease = context.resources.acquire(key, () => {
        const store = make()
        const value = { store, claims: new Claims(store, options) }
        return { value, close: () => close(value, choice) }
      })
      try {
        await lease.value.store.open?.(signal)
      } catch (fault) {
        await lease.release()
        throw fault
      }
      return { value: lease.value.claims, release: () => lease.release() }
    },
  }
}

async function close(
  { store, claims }: { readonly store: DedupeStore; readonly claims: Claims },
  { isUsers }: Choice,
): Promise<void> {
  await claims.close()
  if (isUsers === undefined) await store.close?.()
}

function choose(config: DedupeConfig, context: PluginContext, clock: Clock): Choice {
  const bound = resolveOptional(context.container, tokens.DedupeStore)
  if (bound !== undefined) {
    const name = 'the bound DedupeStore'
    return { name, key: name, prepare: async () => () => bound, isUsers: true }
  }
  return config.redisUrl === undefined ? onDisk(config, context, clock) : inRedis(config, config.redisUrl)
}

function onDisk({ dir: given }: DedupeConfig, context: PluginContext, clock: Clock): Choice {
  const dir = given === undefined ? resolve(context.stateDir, 'dedupe') : resolve(context.baseDir, given)
  return {
    name: 'lmdb',
    key: `lmdb ${dir}`,
    async prepare() {
      const { LmdbDedupeStore } = await import('./lmdb/store.js')
      return () => new LmdbDedupeStore({ dir, now: () => clock.now() })
    },
  }
}

function inRedis({ redis, namespace, timeoutMs }: DedupeConfig, url: string): Choice {
  const options = { url, ...redis, namespace, silenceMs: 2 * timeoutMs, waitMs: Math.ceil(0.8 * timeoutMs) }
  return {
    name: 'redis',
    // Hashed, as the URL may hold a password.
    key: `redis ${sha256Hex(canonicalize(options))}`,
    async prepare() {
      const { RedisDedupeStore } = await import('./redis/store.js')
      return () => new RedisDedupeStore(options)
    },
  }
}
