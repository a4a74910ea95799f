// Finds the patterns of a policy that match no tool of the servers whose tools are known: a rule with a misspelt name
// restricts nothing.
import {
  type ConfigConflict,
  type DescribedRule,
  type PluginContext,
  policyTokens,
  resolveOptional,
  services,
} from '@svc/core'
import { compilePatternSet } from '@svc/core/match'
import { nearest, patternsOf, type WrittenPattern } from '@svc/core/policy'
import { listedReference } from '../mcp/references.js'
import type { Policy } from '../policy/config.js'
import { type ListedTools, refusalsOf } from './tool-access.js'

interface Unmatched {
  readonly path: readonly (string | number)[]
  readonly message: string
  /** An error for a rule that denies or escalates, and applies to nothing. */
  readonly severity: 'error' | 'warning'
}

type State = 'matched' | 'unknown' | readonly ListedTools[]

/** A pattern is judged if the tools of every server that it may match are in `listed`. */
export function unmatchedPatterns(listed: readonly ListedTools[], policy: Policy): Unmatched[] {
  const targets = Object.keys(policy.host.targets)
  const byList = new Map<string, WrittenPattern[]>()
  for (const one of patternsOf(policy)) {
    const place = JSON.stringify(one.path.slice(0, -1))
    byList.set(place, [...(byList.get(place) ?? []), one])
  }
  return [...byList.values()].flatMap((list) => {
    const states = list.map((one) => ({ ...one, state: stateOf(one, listed, targets) }))
    const ofKinds = list.some(({ pattern }) => isOfKind(pattern))
    const rule = ruleOf(list, policy)
    const unmatched = states.flatMap(({ state, ...one }) =>
      typeof state === 'string' ? [] : [{ ...one, servers: state }],
    )
    const found = unmatched.flatMap((one) => describe(one, ofKinds) ?? [])
    if (rule === undefined || ofKinds || unmatched.length < list.length) return found
    const [{ path } = { path: [] }] = list
    const message = `the rule "${rule.name}" (then: ${rule.effect}) applies to no tool: ${found.map((one) => one.message).join('; ')}`
    return [{ path: path.slice(0, -1), message, severity: 'error' as const }]
  })
}

function stateOf(
  { pattern, path }: WrittenPattern,
  listed: readonly ListedTools[],
  targets: readonly string[],
): State {
  const set = compilePatternSet([pattern])
  const meant = targets.filter((server) => set.mayMatchServer(server))
  const servers = listed.filter(({ server }) => meant.includes(server))
  if (isOfOtherMethod(pattern) || servers.length < meant.length) return 'unknown'
  const tools = servers.flatMap(({ server, version, names }) =>
    names.flatMap((name) => listedReference(server, 'tool', name, version) ?? []),
  )
  if (tools.length === 0) return 'unknown'
  const allows = path.includes('allowlist')
  const isMatch = tools.some((tool) => (allows ? set.matches(tool) : set.findReading([tool]) !== undefined))
  return isMatch ? 'matched' : servers
}

function describe(
  { pattern, path, servers }: WrittenPattern & { readonly servers: readonly ListedTools[] },
  ofKinds: boolean,
): Unmatched | undefined {
  const meant = nearest(toolIn(pattern), [...new Set(servers.flatMap(({ names }) => names))])
  // In a list of kinds of tools, a name is one that some server may have.
  if (isOfKind(pattern) || (ofKinds && !pattern.includes('/') && meant === undefined)) return undefined
  const hint = meant === undefined ? '' : `; did you mean "${meant}"?`
  const names = servers.map(({ server, version }) => `"${server}" ${version}`).join(', ')
  const lists = servers.length === 1 ? `the server ${names} lists` : `the servers ${names} list`
  return { path, message: `"${pattern}" matches no tool that ${lists}${hint}`, severity: 'warning' }
}

/** The rule whose `tools` the list is, if it denies or escalates. */
function ruleOf(list: readonly WrittenPattern[], { plugins, container }: Policy): DescribedRule | undefined {
  const [section, index] = list[0]?.path ?? []
  const owner = plugins.find(({ owns = [] }) => owns.some(({ token }) => token === services.describedRules))
  if (section === undefined || section !== owner?.name) return undefined
  const rule = resolveOptional(container, services.describedRules)?.[Number(index)]
  return rule?.effect === 'deny' || rule?.effect === 'escalate' ? rule : undefined
}

/** The pattern of tools of any server by a part of their names. */
function isOfKind(pattern: string): boolean {
  return /^(?:mcp:\/\/)?(?:\*\/)?[^/]*\*[^/]*$/.test(pattern.replace(/(?<=.)@[^@]*$/, ''))
}

/** The pattern of prompts or resources. */
function isOfOtherMethod(pattern: string): boolean {
  return /^(?:mcp:\/\/)?[^/]*\/(?:prompts|resources)\//.test(pattern)
}

/** The name in a pattern, without server and version. */
function toolIn(pattern: string): string {
  return pattern.slice(pattern.lastIndexOf('/') + 1).replace(/(?<=.)@.*$/, '')
}

const maxShown = 50

/**
 * Warnings about tools that the policy refuses to every caller, and about patterns that match none. Servers are asked
 * only if the policy refuses tools by name. Those that cannot be listed are left out, and so are commands, which are
 * not started for a check.
 */
export async function toolWarnings(policy: Policy, context: PluginContext): Promise<ConfigConflict[]> {
  const refuses = resolveOptional(context.container, policyTokens.refusesTools) === true
  if (!refuses && !patternsOf(policy).some(({ path }) => path.includes('denylist'))) return []
  // Imported here, because it loads the code that calls servers.
  const { listHttpTools } = await import('./listed-tools.js')
  const found = await Promise.all(
    Object.entries(policy.host.targets).map(([server, target]) =>
      typeof target === 'string' ? listHttpTools(server, target) : undefined,
    ),
  )
  const listed = found.flatMap((tools) => tools ?? [])
  const refused = listed.map((tools) => (refuses ? refusedTools(tools, policy, context) : []))
  const unmatched = unmatchedPatterns(listed, policy).map(({ path, message }): ConfigConflict => {
    return { path, message, severity: 'warning' }
  })
  return [...(await Promise.all(refused)).flat(), ...unmatched]
}

async function refusedTools(
  tools: ListedTools,
  policy: Policy,
  context: PluginContext,
): Promise<ConfigConflict[]> {
  const refusals = await refusalsOf(tools, policy, context)
  return [...new Set(refusals.map(({ reason }) => reason))].map((reason) => {
    const names = refusals.flatMap((refusal) => (refusal.reason === reason ? [refusal.tool] : []))
    const more = names.length > maxShown ? ` and ${names.length - maxShown} more` : ''
    return {
      path: ['targets', tools.server],
      message: `the server lists tools that are refused with ${reason}: ${names.slice(0, maxShown).join(', ')}${more}`,
      severity: 'warning',
    }
  })
}
