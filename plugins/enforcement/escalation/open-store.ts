// Which store keeps the escalations: one that is bound, else the one the policy names. It outlives a reload, together
// with those who wait in this process.
import { resolve } from 'node:path'
import {
  type Clock,
  type EscalationStore,
  type Lease,
  type PluginContext,
  resolveOptional,
  tokens,
} from '@svc/core'
import { canonicalize, sha256Hex } from '@svc/core/json'
import type { EscalationsConfig } from './config.js'
import { MemoryEscalationStore } from './memory/store.js'
import { ReachableStore } from './reachable-store.js'
import { Waiters } from './waiters.js'

export interface OpenStore {
  readonly store: EscalationStore
  readonly waiters: Waiters
}

interface Source {
  /** Holds all that configures the store. */
  readonly key: string
  readonly make: () => EscalationStore
  readonly isTheirs?: true
  /** Resolves when it can be asked. */
  readonly opened?: (signal: AbortSignal) => Promise<void>
}

/** What the policy does not use is not imported. Rejects when the store cannot be opened. */
export async function openStore(
  config: EscalationsConfig,
  context: PluginContext,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<Lease<OpenStore>> {
  const meter = resolveOptional(context.container, tokens.Meter)
  const { key, make, isTheirs, opened } = await sourceOf(config, context)
  const lease = context.resources.acquire<OpenStore>(`escalations:${config.timeoutMs}:${key}`, () => {
    const store = make()
    const reachable = new ReachableStore(store, { timeoutMs: config.timeoutMs, clock, meter })
    const value = { store: reachable, waiters: new Waiters() }
    return { value, close: () => (isTheirs ? undefined : store.close?.()) }
  })
  try {
    await opened?.(signal)
  } catch (fault) {
    await lease.release()
    throw fault
  }
  return lease
}

async function sourceOf(config: EscalationsConfig, context: PluginContext): Promise<Source> {
  const bound = resolveOptional(context.container, tokens.EscalationStore)
  // What a user made, a user closes: it may serve more than this gateway.
  if (bound !== undefined) return { key: 'bound', make: () => bound, isTheirs: true }
  switch (config.adapter) {
    case 'memory':
      return { key: 'memory', make: () => new MemoryEscalationStore() }
    case 'lmdb': {
      const { LmdbEscalationStore } = await import('./lmdb/store.js')
      const dir =
        config.dir === undefined
          ? resolve(context.stateDir, 'escalations')
          : resolve(context.baseDir, config.dir)
      return { key: `lmdb ${dir}`, make: () => new LmdbEscalationStore(dir) }
    }
    case 'redis': {
      const { RedisEscalationStore } = await import('./redis/store.js')
      const { redisUrl: url = '', redis, timeoutMs } = config
      const options = { url, ...redis, silenceMs: 2 * timeoutMs }
      let store: InstanceType<typeof RedisEscalationStore> | undefined
      return {
        // Hashed, as the URL may hold a password.
        key: `redis ${sha256Hex(canonicalize(options))}`,
        make: () => {
          store = new RedisEscalationStore(options)
          return store
        },
        // Undefined where it is open from before a reload.
        opened: async (signal) => store?.openConnection(signal),
      }
    }
  }
}
