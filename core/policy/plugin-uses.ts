// The policy's `plugins`: the plugin that each entry names, and whether its version satisfies the range.

import semver from 'semver'
import { CORE_VERSION } from '../call/contract.js'
import { defined } from '../json/defined.js'
import type { Plugin } from '../plugin/plugin.js'
import { mistakeAt, type Origin } from './diagnostic.js'
import { childOf, type Env, itemsOf, type Located, textOf } from './node.js'
import type { Diagnostic, PluginUse } from './types.js'

export interface UseEntry extends PluginUse {
  readonly origin: Origin
  readonly versionOrigin: Origin
  readonly path: string
}

/** The readable entries; the host schema reports what is wrong with the others. */
export function readUses(plugins: Located, env: Env): UseEntry[] {
  return itemsOf(plugins).flatMap((item) => {
    const use = textOf(childOf(item, 'use'), env)
    if (use === undefined) return []
    const version = childOf(item, 'version')
    const range = textOf(version, env)
    const { origin, path } = item
    return [
      {
        use,
        origin,
        path,
        versionOrigin: version.origin,
        ...defined({ version: range }),
      },
    ]
  })
}

/** Checks the plugins' versions against the ranges of the policy. */
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
      const message = `"${version}" is not a semver range; accepted is a range such as ^1.0.0`
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

/** Mistakes of the plugin itself: its version, or the range of core that it was written for. */
export function pluginErrors(plugin: Plugin): string[] {
  const errors: string[] = []
  if (semver.valid(plugin.version) === null) {
    errors.push(
      `plugin "${plugin.name}" has the version "${plugin.version}"; accepted is a semver version such as 1.0.0`,
    )
  }
  if (semver.validRange(plugin.core) === null) {
    errors.push(
      `plugin "${plugin.name}" names the core range "${plugin.core}"; accepted is a semver range such as ^1.0.0`,
    )
  } else if (!semver.satisfies(CORE_VERSION, plugin.core)) {
    errors.push(
      `plugin "${plugin.name}" ${plugin.version} was written for core ${plugin.core}; this core is ${CORE_VERSION}`,
    )
  }
  return errors
}
