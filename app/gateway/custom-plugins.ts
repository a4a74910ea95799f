// Imports the modules that a policy names under `plugins`.
import { isAbsolute, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { messageOf, type Plugin, type PluginUse } from '@svc/core'

/** Throws when a module cannot be imported or exports no plugin, naming it. */
export async function importPlugins(
  uses: readonly PluginUse[],
  known: readonly Plugin[],
  baseDir: string,
): Promise<Plugin[]> {
  const modules = uses.filter(({ use }) => !known.some(({ name }) => name === use))
  return Promise.all(modules.map(({ use }) => importPlugin(use, baseDir)))
}

async function importPlugin(use: string, baseDir: string): Promise<Plugin> {
  const isPath = use.startsWith('.') || isAbsolute(use)
  let module: Record<string, unknown>
  try {
    module = await import(isPath ? pathToFileURL(resolve(baseDir, use)).href : use)
  } catch (cause) {
    throw new Error(`plugin ${use} cannot be imported: ${messageOf(cause)}`, { cause })
  }
  const plugin = module['default'] ?? module['plugin']
  if (!isPlugin(plugin)) {
    throw new Error(`plugin ${use} exports no plugin; export one as default, or under the name "plugin"`)
  }
  return plugin
}

function isPlugin(value: unknown): value is Plugin {
  if (typeof value !== 'object' || value === null) return false
  const { name, version, core, schema, create } = value as Record<string, unknown>
  return (
    typeof name === 'string' &&
    typeof version === 'string' &&
    typeof core === 'string' &&
    typeof schema === 'object' &&
    typeof create === 'function'
  )
}
