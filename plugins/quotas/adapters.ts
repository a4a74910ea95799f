// Which adapter counts: the one from code, else the one the policy names.
import { resolve } from 'node:path'
import {
  type Clock,
  type Lease,
  type PluginContext,
  type QuotaAdapter,
  resolveOptional,
  token,
  tokens,
} from '@svc/core'
import { canonicalize, messageOf, sha256Hex } from '@svc/core/json'
import type { QuotasConfig } from './config.js'
import { MemoryQuotaAdapter } from './memory/adapter.js'

/** Opens an adapter of one's own. The gateway keeps it across reloads and calls its `close()` in the end. */
export type QuotaAdapterFactory = (context: PluginContext) => QuotaAdapter

/** Adapters that `quotas.adapter` may name besides the built-in ones. */
export const quotaAdapters = token<ReadonlyMap<string, QuotaAdapterFactory>>('quotas/adapters')

/** An adapter that is known but not yet open. */
export interface AdapterSource {
  readonly name: string
  open(signal: AbortSignal): Promise<Lease<QuotaAdapter>>
}

/**
 * An object in the configuration wins, then a registered name, then what `tokens.QuotaAdapter` is bound to (in place
 * of memory), then what ships. Throws for a name that nobody registered. What a policy does not use is not imported.
 */
export function chooseAdapter(config: QuotasConfig, context: PluginContext, clock: Clock): AdapterSource {
  const { adapter: name } = config
  if (typeof name !== 'string') return ownedByUser('a QuotaAdapter given in code', name)
  const now = () => clock.now()
  if (name === 'memory') {
    const bound = resolveOptional(context.container, tokens.QuotaAdapter)
    if (bound !== undefined) return ownedByUser('the bound QuotaAdapter', bound)
    return kept({ name, key: name, prepare: async () => () => new MemoryQuotaAdapter({ now }) }, context)
  }
  if (name === 'lmdb') {
    const dir =
      config.dir === undefined ? resolve(context.stateDir, 'quotas') : resolve(context.baseDir, config.dir)
    const prepare = async () => {
      const { LmdbQuotaAdapter } = await import('./lmdb/adapter.js')
      return () => new LmdbQuotaAdapter({ dir, now })
    }
    return kept({ name, key: `lmdb ${dir}`, prepare }, context)
  }
  if (name === 'redis') return redis(config, context)
  return registered(name, context)
}

function registered(name: string, context: PluginContext): AdapterSource {
  const factories =
    resolveOptional(context.container, quotaAdapters) ?? new Map<string, QuotaAdapterFactory>()
  const factory = factories.get(name)
  if (factory === undefined) {
    const known = ['memory', 'lmdb', 'redis', ...factories.keys()].join(', ')
    throw new Error(`quotas.adapter: no adapter named "${name}" is registered; known are ${known}`)
  }
  return kept({ name, key: name, prepare: async () => () => factory(context) }, context)
}

/** What a user made, a user closes: it may serve more than this gateway. */
function ownedByUser(name: string, adapter: QuotaAdapter): AdapterSource {
  return { name, open: async () => ({ value: adapter, release: async () => undefined }) }
}

/** Where calls are let through while it is down, the gateway starts without it. */
function redis(config: QuotasConfig, context: PluginContext): AdapterSource {
  const { redisUrl: url = '', redis: { lease, ...more } = {}, timeoutMs, failure_mode } = config
  const options = { url, ...more, silenceMs: 2 * timeoutMs }
  return kept(
    {
      name: 'redis',
      // Hashed, as the URL may hold a password.
      key: `redis ${sha256Hex(Buffer.from(canonicalize({ ...options, lease })))}`,
      async prepare() {
        const { LeasedQuotaAdapter, RedisQuotaAdapter } = await import('./redis/index.js')
        return () => {
          const store = new RedisQuotaAdapter(options)
          return lease === undefined ? store : new LeasedQuotaAdapter(store, lease)
        }
      },
      async opened(adapter, signal) {
        try {
          await adapter.open(signal)
        } catch (fault) {
          if (failure_mode === 'closed') throw fault
          context.warn(`quotas: ${messageOf(fault)}; it is tried again and again`)
        }
      },
    },
    context,
  )
}

interface Kept<T extends QuotaAdapter> {
  readonly name: string
  /** Holds all that configures the adapter. */
  readonly key: string
  /** Imports what makes it. */
  prepare(): Promise<() => T>
  /** Resolves when it can count. */
  opened?(adapter: T, signal: AbortSignal): Promise<void>
}

function kept<T extends QuotaAdapter>(
  { name, key, prepare, opened }: Kept<T>,
  context: PluginContext,
): AdapterSource {
  return {
    name,
    async open(signal) {
      const make = await prepare()
      const lease = context.resources.acquire<T>(`quotas:${key}`, () => {
        const value = make()
        return { value, close: () => value.close?.() }
      })
      try {
        await opened?.(lease.value, signal)
      } catch (fault) {
        await lease.release()
        throw fault
      }
      return lease
    },
  }
}
