// The containers of a gateway.
import 'reflect-metadata'
import { type Plugin, registerPlugin } from '@svc/core'
import { type DependencyContainer, container as root } from 'tsyringe'
import { builtinPlugins } from '../policy/plugins.js'

/** A container for one gateway, with the plugins that ship; two gateways in one process share nothing. */
export function createContainer(): DependencyContainer {
  const container = root.createChildContainer()
  for (const plugin of builtinPlugins) registerPlugin(container, plugin)
  return container
}

/**
 * The container behind `handle.container`: the user's bindings and, for the tokens that plugins own, the running parts.
 * A reload changes what these resolve to.
 */
export class RunningContainer {
  readonly container: DependencyContainer
  #current: DependencyContainer | undefined

  constructor(bindings: DependencyContainer) {
    this.container = bindings.createChildContainer()
  }

  /** `current` is the container of the policy that is now in force, `plugins` are those that run. */
  switchTo(current: DependencyContainer, plugins: readonly Plugin[]): void {
    this.#current = current
    for (const { token } of plugins.flatMap(({ owns = [] }) => owns)) {
      if (this.container.isRegistered(token) || !current.isRegistered(token, true)) continue
      this.container.register(token, { useFactory: () => (this.#current ?? current).resolve(token) })
    }
  }
}
