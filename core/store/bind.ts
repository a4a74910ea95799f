// How a plugin shares its store: its stage gets the resource, everybody else the running store behind the port's token.
import type { DependencyContainer } from 'tsyringe'
import { lateBound } from '../plugin/late-bound.js'
import type { StoreLifecycle } from '../plugin/store-lifecycle.js'
import { bind, bindDefault, type Token } from '../plugin/tokens.js'
import type { StoreResource } from './resource.js'

/** For `register`. The resource has looked for a store of the user's before: that binding of `port` stays. */
export function bindStore<T extends StoreLifecycle>(
  container: DependencyContainer,
  { resource, own, port }: { resource: StoreResource<T>; own: Token<StoreResource<T>>; port: Token<T> },
): void {
  bind(container, own, { useValue: resource })
  bindDefault(container, port, { useValue: lateBound(`the ${resource.name}`, () => resource.running) })
}
