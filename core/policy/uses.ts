// The policy's `plugins`: which plugin each entry means, and whether the versions fit.
import semver from 'semver'
import { CORE_VERSION } from '../call/contract.js'
import type { Plugin } from '../plugin/plugin.js'
import { mistakeAt, type Origin } from './diagnostic.js'
import { type Secret, substitute } from './environment.js'
import type { PolicyNode } from './node.js'
import { knownKey } from './spelling.js'
import type { Diagnostic, PluginUse } from './types.js'

export interface UseEntry extends PluginUse {
  readonly origin: Origin
  readonly versionOrigin: Origin
  readonly path: string
}

type Env = Readonly<Record<string, string | undefined>>

/** The entries that can be read; what is wrong with the others the host schema says. */
export function readUses(node: PolicyNode | undefined, env: Env): UseEntry[] {
  if (node?.kind !== 'list') return []
  return node.items.flatMap((item, index) => {
    if (item.kind !== 'map') return []
    const member = (name: string) => item.entries.find(({ key }) => knownKey(key, [name]) !== undefined)
    const use = textOf(member('use')?.node, env)
    const version = textOf(member('version')?.node, env)
    if (use === undefined) return []
    return [
      {
        use,
        ...(version === undefined ? {} : { version }),
        origin: item.origin,
        versionOrigin: member('version')?.origin ?? item.origin,
        path: `plugins[${index}]`,
      },
    ]
  })
}

/** A string of the policy with the environment put in; undefined for anything else. */
export function textOf(node: PolicyNode | undefined, env: Env): string | undefined {
  if (node?.kind !== 'scalar' || typeof node.value !== 'string') return undefined
  return substitute(node.value, env)?.value ?? node.value
}

/** What the environment put into a part of the policy. */
export function secretsOf(node: PolicyNode | undefined, env: Env): Secret[] {
  if (node?.kind === 'map') return node.entries.flatMap((entry) => secretsOf(entry.node, env))
  if (node?.kind === 'list') return node.items.flatMap((item) => secretsOf(item, env))
  if (typeof node?.value !== 'string') return []
  return [...(substitute(node.value, env)?.secrets ?? [])]
}

/** What the policy asks of a plugin's version, and the plugin of core's. */
export function checkVersions(
  uses: readonly UseEntry[],
  pluginOf: (use: string) => Plugin | undefined,
): Diagnostic[] {
  const mistakes: Diagnostic[] = []
  const seen = new Map<string, UseEntry>()
  for (const entry of uses) {
    const { use, version, versionOrigin, origin, path } = entry
    const earlier = seen.get(use)
    if (earlier !== undefined) {
      mistakes.push(mistakeAt(origin, path, `"${use}" is listed already, as ${earlier.path}; list it once`))
    }
    seen.set(use, entry)
    const at = `${path}.version`
    if (version !== undefined && semver.validRange(version) === null) {
      const message = `"${version}" is no semver range; accepted is a range such as ^1.0.0`
      mistakes.push(mistakeAt(versionOrigin, at, message))
      continue
    }
    const plugin = pluginOf(use)
    if (plugin === undefined || version === undefined || semver.valid(plugin.version) === null) continue
    if (!semver.satisfies(plugin.version, version)) {
      const message = `plugin "${plugin.name}" is version ${plugin.version}, which ${version} does not accept`
      mistakes.push(mistakeAt(versionOrigin, at, message))
    }
  }
  return mistakes
}

/** What is wrong with the plugin itself: its version, or the core it was written for. */
export function pluginFaults(plugin: Plugin): string[] {
  const faults: string[] = []
  if (semver.valid(plugin.version) === null) {
    faults.push(
      `plugin "${plugin.name}" has the version "${plugin.version}"; accepted is a semver version such as 1.0.0`,
    )
  }
  if (semver.validRange(plugin.core) === null) {
    faults.push(
      `plugin "${plugin.name}" asks for core "${plugin.core}"; accepted is a semver range such as ^1.0.0`,
    )
  } else if (!semver.satisfies(CORE_VERSION, plugin.core)) {
    faults.push(`plugin "${plugin.name}" was written for core ${plugin.core}; this core is ${CORE_VERSION}`)
  }
  return faults
}
