// Compares two sections key by key: by their bounds and lists, and by what their version patterns match.
import { isDeepStrictEqual } from 'node:util'
import type { ChangeEffect, PolicyChange } from '@svc/core'
import { findReference, NotComparableError } from '@svc/core/match'
import type { SecurityConfig } from './config.js'
import { humanEscalationSchema } from './human-escalation.js'

export function compareSecurity(before: SecurityConfig, after: SecurityConfig): PolicyChange[] {
  const [old, now] = [before.side_effects ?? {}, after.side_effects ?? {}]
  const same = (key: string, was: unknown, is: unknown): PolicyChange[] =>
    isDeepStrictEqual(was, is) ? [] : [changeOf('unknown', key, 'changed, not compared')]
  return [
    ...versions(before.allow_versions ?? {}, after.allow_versions ?? {}),
    ...list('egress_allowlist', before.egress_allowlist, after.egress_allowlist),
    ...list('fs_allowlist', before.fs_allowlist, after.fs_allowlist),
    ...same('fs_root', before.fs_root, after.fs_root),
    ...bound('limits.max_payload_kb', before.limits?.max_payload_kb, after.limits?.max_payload_kb),
    ...bound('limits.max_duration_ms', before.limits?.max_duration_ms, after.limits?.max_duration_ms),
    ...keyRequired(old.require_idempotency_key === true, now.require_idempotency_key === true),
    ...approvals(old.approve_high_risk === true, now.approve_high_risk === true),
    ...same('side_effects.tools', old.tools, now.tools),
    ...unknownEffects(old.unknown, now.unknown),
    ...same('side_effects.trust_annotations', old.trust_annotations === true, now.trust_annotations === true),
    ...same('side_effects.human_escalation', notNamed(old.human_escalation), notNamed(now.human_escalation)),
    ...passkeys(old.human_escalation?.require, now.human_escalation?.require),
    ...emergencies(old.human_escalation?.emergency, now.human_escalation?.emergency),
  ]
}

function changeOf(effect: ChangeEffect, key: string, detail: string): PolicyChange {
  return { effect, subject: `security.${key}`, detail }
}

function bound(key: string, was = Number.POSITIVE_INFINITY, is = Number.POSITIVE_INFINITY): PolicyChange[] {
  const show = (value: number) => (value === Number.POSITIVE_INFINITY ? 'no limit' : String(value))
  return was === is ? [] : [changeOf(is > was ? 'wider' : 'narrower', key, `${show(was)} -> ${show(is)}`)]
}

function keyRequired(was: boolean, is: boolean): PolicyChange[] {
  const key = 'side_effects.require_idempotency_key'
  return was === is ? [] : [changeOf(is ? 'narrower' : 'wider', key, `${was} -> ${is}`)]
}

function unknownEffects(was = 'harmless', is = 'harmless'): PolicyChange[] {
  if (was === is) return []
  return [changeOf(is === 'effect' ? 'narrower' : 'wider', 'side_effects.unknown', `${was} -> ${is}`)]
}

/** Without approvals `deny_on` decides on what escalated before: it may deny it, or let it pass. */
function approvals(was: boolean, is: boolean): PolicyChange[] {
  const key = 'side_effects.approve_high_risk'
  if (was === is) return []
  return [
    is
      ? changeOf('wider', key, 'false -> true')
      : changeOf('unknown', key, 'true -> false: enforcement.deny_on decides'),
  ]
}

type HumanEscalation = NonNullable<SecurityConfig['side_effects']>['human_escalation']
type Emergency = NonNullable<HumanEscalation>['emergency']

/** The keys without a comparison of their own. A section that is absent has the defaults. */
function notNamed(section: HumanEscalation = humanEscalationSchema.parse({})): object {
  const { emergency: _, require: __, ...rest } = section
  return rest
}

function passkeys(was: 'passkey' | undefined, is: 'passkey' | undefined): PolicyChange[] {
  if (was === is) return []
  const [needs, enough] = ['each vote needs a passkey', 'a token or a session is enough']
  const key = 'side_effects.human_escalation.require'
  return [
    is === undefined
      ? changeOf('wider', key, `${needs} -> ${enough}`)
      : changeOf('narrower', key, `${enough} -> ${needs}`),
  ]
}

function emergencies(was: Emergency, is: Emergency): PolicyChange[] {
  const key = 'side_effects.human_escalation.emergency'
  return [
    ...entries(`${key}.roles`, was?.roles ?? [], is?.roles ?? [], (entry, others) => others.includes(entry)),
    ...(was === undefined || is === undefined
      ? []
      : bound(`${key}.max_open_reviews`, was.max_open_reviews, is.max_open_reviews)),
  ]
}

/** A list that is absent allows everything. An entry that another one covers counts as one more. */
function list(
  key: string,
  was: readonly string[] | undefined,
  is: readonly string[] | undefined,
): PolicyChange[] {
  if (was === undefined || is === undefined) {
    if (was === is) return []
    return [
      changeOf(
        is === undefined ? 'wider' : 'narrower',
        key,
        `${is === undefined ? 'removed: everything is allowed' : 'added'}`,
      ),
    ]
  }
  return entries(key, was, is, (entry, others) => others.includes(entry))
}

function versions(
  was: Readonly<Record<string, readonly string[]>>,
  is: Readonly<Record<string, readonly string[]>>,
): PolicyChange[] {
  return [...new Set([...Object.keys(was), ...Object.keys(is)])].flatMap((server) => {
    const key = `allow_versions.${server}`
    const [old, now] = [was[server], is[server]]
    if (old === undefined || now === undefined) return list(key, old, now)
    try {
      return entries(key, old, now, isCovered)
    } catch (error) {
      if (!(error instanceof NotComparableError)) throw error
      return [changeOf('unknown', key, `not compared: ${error.message}`)]
    }
  })
}

function isCovered(version: string, by: readonly string[]): boolean {
  const patterns = by.map((one) => `*@${one}`)
  return findReference({ inside: [{ patterns: [`*@${version}`] }], outside: [{ patterns }] }) === undefined
}

function entries(
  key: string,
  was: readonly string[],
  is: readonly string[],
  covered: (entry: string, others: readonly string[]) => boolean,
): PolicyChange[] {
  const added = is.filter((entry) => !covered(entry, was))
  const removed = was.filter((entry) => !covered(entry, is))
  return [
    ...added.map((entry) => changeOf('wider', key, `allows ${entry}`)),
    ...removed.map((entry) => changeOf('narrower', key, `no longer allows ${entry}`)),
  ]
}
