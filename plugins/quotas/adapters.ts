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
import type { QuotasConfig } from './config.js'
import { MemoryQuotaAdapter } from './memory/adapter.js'

/** Opens an adapter of one's own. The gateway keeps it across reloads and calls its `close()` in the end. */
export type QuotaAdapterFactory = (context: PluginContext) => QuotaAdapter

/** Adapters that `quotas.adapter` may name besides the built-in ones. */
export const quotaAdapters = token<ReadonlyMap<string, QuotaAdapterFactory>>('quotaAdapters')

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
    return kept(name, name, context, async () => () => new MemoryQuotaAdapter({ now }))
  }
  if (name === 'lmdb') {
    const dir =
      config.dir === undefined ? resolve(context.stateDir, 'quotas') : resolve(context.baseDir, config.dir)
    return kept(name, `lmdb ${dir}`, context, async () => {
      const { LmdbQuotaAdapter } = await import('./lmdb/adapter.js')
      return () => new LmdbQuotaAdapter({ dir, now })
    })
  }
  return registered(name, context)
}

function registered(name: string, context: PluginContext): AdapterSource {
  const factories =
    resolveOptional(context.container, quotaAdapters) ?? new Map<string, QuotaAdapterFactory>()
  const factory = factories.get(name)
  if (factory === undefined) {
    const known = ['memory', 'lmdb', ...factories.keys()].join(', ')
    throw new Error(`quotas.adapter: no adapter named "${name}" is registered; known are ${known}`)
  }
  return kept(name, name, context, async () => () => factory(context))
}

/** What a user made, a user closes: it may serve more than this gateway. */
function ownedByUser(name: string, adapter: QuotaAdapter): AdapterSource {
  return { name, open: async () => ({ value: adapter, release: async () => undefined }) }
}

/** `key` holds all that configures the adapter; `prepare` imports what makes it. */
function kept(
  name: string,
  key: string,
  context: PluginContext,
  prepare: () => Promise<() => QuotaAdapter>,
): AdapterSource {
  return {
    name,
    async open() {
      const make = await prepare()
      return context.resources.acquire(`quotas:${key}`, () => {
        const value = make()
        return { value, close: () => value.close?.() }
      })
    },
  }
}
