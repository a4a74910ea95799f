// Binds a plugin's store: its stage resolves the resource, other code resolves the running store by the port's token.
import type { DependencyContainer } from 'tsyringe'
import type { ConfigConflict } from '../plugin/plugin.js'
import { hostOf } from '../plugin/policy-tokens.js'
import { services } from '../plugin/services.js'
import type { StoreLifecycle } from '../plugin/store-lifecycle.js'
import { bind, bindDefault, type Token } from '../plugin/tokens.js'
import type { StoreResource } from './resource.js'

interface StoreBinding<T extends StoreLifecycle> {
  readonly resource: StoreResource<T>
  readonly own: Token<StoreResource<T>>
  readonly port?: Token<T>
}

/**
 * Call it in `register`. A binding of `port` in code stays; the resource already uses that store. The store that all gateways
 * share is that of the outermost stage that has one.
 */
export function bindStore<T extends StoreLifecycle>(
  container: DependencyContainer,
  { resource, own, port }: StoreBinding<T>,
): void {
  const { board, sharedStore } = resource
  bind(container, own, { useValue: resource })
  if (port !== undefined) bindDefault(container, port, { useCurrent: () => resource.running })
  if (board !== undefined) bindDefault(container, services.board, { useValue: board })
  if (sharedStore !== undefined) bindDefault(container, services.sharedStore, { useValue: sharedStore })
}

/** The mistake of a store in memory, at `path`, for one of several processes that serve together. */
export function checkForWorkers(
  adapter: unknown,
  path: ConfigConflict['path'],
  bindings: DependencyContainer,
): ConfigConflict[] {
  const { workers = 1 } = hostOf(bindings)
  if (adapter !== 'memory' || workers < 2) return []
  const message = `"memory" is that of one process, and there are ${workers} workers; use lmdb or redis, or --workers 1`
  return [{ path, message }]
}
