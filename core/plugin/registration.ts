// Plugins are registered in the container under one token; what ships is only the default registration.
import type { DependencyContainer } from 'tsyringe'
import type { Plugin } from './plugin.js'
import { token } from './tokens.js'

const plugins = token<Plugin>('Plugin')

/** Adds a plugin. Of two that own one section the later counts, so that a user's own replaces ours. */
export function registerPlugin(container: DependencyContainer, plugin: Plugin): void {
  container.register<Plugin>(plugins, { useValue: plugin })
}

/** All that are registered, in the order of registration. */
export function registeredPlugins(container: DependencyContainer): Plugin[] {
  return container.isRegistered(plugins, true) ? container.resolveAll<Plugin>(plugins) : []
}
