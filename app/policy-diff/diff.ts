// Compares two policies section by section, as each plugin compares its own.
import { isDeepStrictEqual } from 'node:util'
import {
  type ChangeEffect,
  type ComparedPolicies,
  type Plugin,
  type PolicyChange,
  policyTokens,
  resolveOptional,
} from '@svc/core'
import type { HostConfig, Policy } from '../policy/config.js'
import { addressesOf } from '../stdio-targets/config.js'
import { targetOf } from '../upstream/target.js'

/** Stages of these phases let every call pass. */
const JUDGES_NOTHING: ReadonlySet<string> = new Set(['record', 'redaction'])

/** Keys of the host that decide on no call. */
const NEUTRAL: ReadonlySet<string> = new Set(['port', 'sec0Dir', 'notices', 'shadow'])

export function policyChanges(before: Policy, after: Policy): PolicyChange[] {
  const servers = [...new Set([...Object.keys(before.host.targets), ...Object.keys(after.host.targets)])]
  const policies = {
    servers,
    reasonsDiffer: [before, after].some(hasEffectsByReason),
    denylistsMayPass: mayPassDenylists(after),
  }
  const names = [...new Set([...before.plugins, ...after.plugins].map(({ name }) => name))]
  return [
    ...hostChanges(before.host, after.host),
    ...orderChange(before, after),
    ...names.flatMap((name) => sectionChanges(name, before, after, policies)),
  ]
}

/** Whether somebody may do more under the second policy: `undefined` if that is not known. */
export function somebodyGains(changes: readonly PolicyChange[]): boolean | undefined {
  const effects = new Set<ChangeEffect>(changes.map(({ effect }) => effect))
  if (effects.has('gain') || effects.has('wider')) return true
  return effects.has('unknown') ? undefined : false
}

function sectionChanges(
  name: string,
  before: Policy,
  after: Policy,
  policies: ComparedPolicies,
): readonly PolicyChange[] {
  const [old, now] = [pluginOf(name, before), pluginOf(name, after)]
  const plugin = now ?? old
  if (plugin === undefined) return []
  if (old !== undefined && now !== undefined && old !== now) return [notCompared(name, 'another plugin runs')]
  const [was, is] = [before.sections.get(name), after.sections.get(name)]
  if (old === now && isDeepStrictEqual(was, is)) return []
  if (plugin.compare !== undefined) return plugin.compare(was, is, policies)
  const what = old === undefined ? 'added' : now === undefined ? 'removed' : 'changed'
  if (JUDGES_NOTHING.has(plugin.phase ?? ''))
    return [{ effect: 'none', subject: name, detail: `${what}; it decides on no call` }]
  return [notCompared(name, what)]
}

function hasEffectsByReason({ container }: Policy): boolean {
  const rule = resolveOptional(container, policyTokens.denyRule)
  const mayEscalate = resolveOptional(container, policyTokens.escalationRule) !== undefined
  const asksRuntime = resolveOptional(container, policyTokens.asksRuntime) === true
  return rule?.denyOn !== undefined || mayEscalate || asksRuntime
}

/** Whether a call in a denylist may pass where one in no allowlist does not. */
function mayPassDenylists(policy: Policy): boolean {
  const denyOn = resolveOptional(policy.container, policyTokens.denyRule)?.denyOn
  return hasEffectsByReason(policy) && denyOn !== undefined && !denyOn.includes('tool_in_denylist')
}

function notCompared(subject: string, what: string): PolicyChange {
  return { effect: 'unknown', subject, detail: `${what}, not compared` }
}

function pluginOf(name: string, { plugins }: Policy): Plugin | undefined {
  return plugins.find((plugin) => plugin.name === name)
}

function orderChange(before: Policy, after: Policy): PolicyChange[] {
  const inBoth = (policy: Policy, other: Policy) =>
    policy.plugins.map(({ name }) => name).filter((name) => pluginOf(name, other) !== undefined)
  return isDeepStrictEqual(inBoth(before, after), inBoth(after, before))
    ? []
    : [notCompared('pipeline', 'the order changed')]
}

function hostChanges(before: HostConfig, after: HostConfig): PolicyChange[] {
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])] as (keyof HostConfig)[]
  return keys.flatMap((key): PolicyChange[] => {
    if (key === 'targets') return targetChanges(before.targets, after.targets)
    if (isDeepStrictEqual(before[key], after[key])) return []
    return NEUTRAL.has(key)
      ? [{ effect: 'none', subject: key, detail: 'changed; it decides on no call' }]
      : [notCompared(key, 'changed')]
  })
}

type Targets = HostConfig['targets']

function targetChanges(before: Targets, after: Targets): PolicyChange[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((server): PolicyChange[] => {
    const [old, now] = [before[server], after[server]]
    if (isDeepStrictEqual(old, now)) return []
    const subject = `server ${server}`
    if (old === undefined)
      return [{ effect: 'gain', subject, detail: 'can be called where its tools are allowed' }]
    if (now === undefined) return [{ effect: 'loss', subject, detail: 'is no longer a target' }]
    const isMcp = (targets: Targets) => targetOf(addressesOf(targets)[server] ?? '').isMcp
    return [
      notCompared(
        subject,
        isMcp(before) === isMcp(after) ? 'another address or command' : 'another protocol',
      ),
    ]
  })
}
