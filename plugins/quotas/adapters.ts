// Which adapter counts: the one from code, else the one the policy names.
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
  open(): Lease<QuotaAdapter>
}

/**
 * An object in the configuration wins, then a registered name, then what `tokens.QuotaAdapter` is bound to, then
 * memory. Throws for a name that nobody registered.
 */
export function chooseAdapter(
  configured: QuotasConfig['adapter'],
  context: PluginContext,
  clock: Clock,
): AdapterSource {
  if (typeof configured !== 'string') return ownedByUser('a QuotaAdapter given in code', configured)
  if (configured !== 'memory') return registered(configured, context)
  const bound = resolveOptional(context.container, tokens.QuotaAdapter)
  if (bound !== undefined) return ownedByUser('the bound QuotaAdapter', bound)
  return kept('memory', context, () => new MemoryQuotaAdapter({ now: () => clock.now() }))
}

function registered(name: string, context: PluginContext): AdapterSource {
  const factories =
    resolveOptional(context.container, quotaAdapters) ?? new Map<string, QuotaAdapterFactory>()
  const factory = factories.get(name)
  if (factory === undefined) {
    const known = ['memory', ...factories.keys()].join(', ')
    throw new Error(`quotas.adapter: no adapter named "${name}" is registered; known are ${known}`)
  }
  return kept(name, context, () => factory(context))
}

/** What a user made, a user closes: it may serve more than this gateway. */
function ownedByUser(name: string, adapter: QuotaAdapter): AdapterSource {
  return { name, open: () => ({ value: adapter, release: async () => undefined }) }
}

function kept(name: string, context: PluginContext, make: () => QuotaAdapter): AdapterSource {
  return {
    name,
    open: () =>
      context.resources.acquire(`quotas:${name}`, () => {
        const value = make()
        return { value, close: () => value.close?.() }
      }),
  }
}
