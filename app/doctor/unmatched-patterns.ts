// Finds the patterns of a policy that match no tool of a server whose tools are known: a denylist entry with a misspelt
// name denies nothing.
import type { ConfigConflict, SectionEntry } from '@svc/core'
import { compilePatternSet } from '@svc/core/match'
import { nearest } from '@svc/core/policy'
import { listedReference } from '../mcp/references.js'
import type { Policy } from '../policy/config.js'
import type { ListedTools } from './tool-access.js'

/** Warnings. `entries` are those of the stages; patterns that another target may be meant by are left out. */
export function unmatchedPatterns(
  { server, version, names }: ListedTools,
  entries: readonly SectionEntry[],
  { host }: Policy,
): ConfigConflict[] {
  const others = Object.keys(host.targets).filter((name) => name !== server)
  const tools = names.flatMap((name) => listedReference(server, 'tool', name, version) ?? [])
  if (tools.length === 0) return []
  return entries.flatMap(({ kind, name, path }): ConfigConflict[] => {
    if (kind !== 'pattern' || isOfOtherKind(name)) return []
    const set = compilePatternSet([name])
    if (!set.mayMatchServer(server) || others.some((other) => set.mayMatchServer(other))) return []
    const allows = path.includes('allowlist')
    if (tools.some((tool) => (allows ? set.matches(tool) : set.findReading([tool]) !== undefined))) return []
    const meant = nearest(toolIn(name), names)
    const hint = meant === undefined ? '' : `; did you mean "${meant}"?`
    const message = `"${name}" matches no tool that the server "${server}" ${version} lists${hint}`
    return [{ path, message, severity: 'warning' }]
  })
}

/** The pattern of prompts or resources. */
function isOfOtherKind(pattern: string): boolean {
  return /^(?:mcp:\/\/)?[^/]*\/(?:prompts|resources)\//.test(pattern)
}

/** The name in a pattern, without server and version. */
function toolIn(pattern: string): string {
  return pattern.slice(pattern.lastIndexOf('/') + 1).replace(/(?<=.)@.*$/, '')
}
