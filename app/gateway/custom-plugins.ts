// Imports the modules that a policy names under `plugins`. A module that cannot be imported comes back as an error, so
// that the loader can report it at its line, with every other mistake.
import { createRequire } from 'node:module'
import { isAbsolute, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Plugin } from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { PluginUse } from '@svc/core/policy'

/** The plugin of each module by its `use`, or the error instead. */
export type ImportedPlugins = ReadonlyMap<string, Plugin | Error>

/** The entries of `plugins` that name a module, not one of the `known` plugins. */
export function modulesOf(uses: readonly PluginUse[], known: readonly Plugin[]): string[] {
  const names = uses.map(({ use }) => use).filter((use) => !known.some(({ name }) => name === use))
  return [...new Set(names)]
}

/** A path starts from `baseDir`; a package is looked up from there, then from this package. */
export async function importPlugins(modules: readonly string[], baseDir: string): Promise<ImportedPlugins> {
  const imported = await Promise.all(
    modules.map(async (use) => [use, await importPlugin(use, baseDir)] as const),
  )
  return new Map(imported)
}

async function importPlugin(use: string, baseDir: string): Promise<Plugin | Error> {
  let module: Record<string, unknown>
  try {
    module = await importModule(use, baseDir)
  } catch (error) {
    return error instanceof Error ? error : new Error(messageOf(error))
  }
  const plugin = module['default'] ?? module['plugin']
  if (isPlugin(plugin)) return plugin
  const message = `"${use}" exports no plugin; accepted is a plugin as default export, or under the name "plugin"`
  return new Error(message)
}

/** The exports of a module that a policy or an option names. Rejects with the reason. */
export async function importModule(use: string, baseDir: string): Promise<Record<string, unknown>> {
  try {
    return await import(specifierOf(use, baseDir))
  } catch (cause) {
    throw new Error(`"${use}" cannot be imported: ${reasonOf(cause)}`, { cause })
  }
}

function specifierOf(use: string, baseDir: string): string {
  if (use.startsWith('file:')) return use
  if (use.startsWith('.') || isAbsolute(use)) return pathToFileURL(resolve(baseDir, use)).href
  try {
    return pathToFileURL(createRequire(join(resolve(baseDir), 'policy.js')).resolve(use)).href
  } catch (error) {
    // `import` finds a package that only ESM may import, or one that is installed beside this package.
    if (error instanceof Error && 'code' in error) return use
    throw error
  }
}

function isPlugin(value: unknown): value is Plugin {
  if (typeof value !== 'object' || value === null) return false
  const { name, version, core, schema, create } = value as Record<string, unknown>
  const isSchema = typeof schema === 'object' && schema !== null && '_zod' in schema
  return (
    [name, version, core].every((text) => typeof text === 'string') &&
    isSchema &&
    typeof create === 'function'
  )
}

/** The first line of the error, without the place of the import, which is always here. */
function reasonOf(cause: unknown): string {
  const [line = ''] = messageOf(cause).split('\n', 1)
  return line.replace(/ imported from .*$/, '')
}
