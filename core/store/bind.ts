// Binds a plugin's store: its stage resolves the resource, other code resolves the running store by the port's token.
import type { DependencyContainer } from 'tsyringe'
import { lateBound } from '../plugin/late-bound.js'
import type { StoreLifecycle } from '../plugin/store-lifecycle.js'
import { bind, bindDefault, type Token } from '../plugin/tokens.js'
import type { StoreResource } from './resource.js'

/** For `register`. A binding of `port` in code stays; the resource already uses that store. */
export function bindStore<T extends StoreLifecycle>(
  container: DependencyContainer,
  { resource, own, port }: { resource: StoreResource<T>; own: Token<StoreResource<T>>; port: Token<T> },
): void {
  bind(container, own, { useValue: resource })
  bindDefault(container, port, { useValue: lateBound(`the ${resource.name}`, () => resource.running) })
}
