// Plugins are registered in the container under one token. The built-in plugins are the default registration.
import type { DependencyContainer } from 'tsyringe'
import type { Plugin } from './plugin.js'
import { token } from './tokens.js'

const plugins = token<Plugin>('Plugin')

/** Registers a plugin. Of two with the same section the later counts, so that a user's plugin replaces a built-in one. */
export function registerPlugin(container: DependencyContainer, plugin: Plugin): void {
  container.register<Plugin>(plugins, { useValue: plugin })
}

/** All registered plugins, in the order of registration. */
export function registeredPlugins(container: DependencyContainer): Plugin[] {
  return container.isRegistered(plugins, true) ? container.resolveAll<Plugin>(plugins) : []
}
